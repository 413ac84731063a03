// SPDX-License-Identifier: Apache-2.0
//
// The Python module torch_neuronx._C: starts the runtime, connects it with the interpreter and adds
// the bindings. Nothing here creates a device or a thread.
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <memory>

#include "neuron/base/process.h"
#include "neuron/eager/executor.h"
#include "neuron/host/kernel_cache.h"
#include "neuron/host/thread_pool.h"
#include "neuron/runtime/runtime.h"
#include "neuron/target/host_target.h"
#include "torch/alias.h"
#include "torch/bindings.h"
#include "torch/hooks.h"

namespace neuron::glue {
namespace py = pybind11;
namespace {

unsigned long main_thread = 0;  // NOLINT: the type of PyThread_get_thread_ident

// ---- waiting: without the GIL, and ended by signals on the main thread

void* release_gil() {
  return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}

void take_gil(void* state) {
  if (state == nullptr) return;
  // A daemon thread whose wait outlasts the interpreter must not run Python again. CPython would end
  // it by unwinding, which no C++ frame above survives, so it stays here until the process is gone.
  while (_Py_IsFinalizing() && PyThread_get_thread_ident() != main_thread) pause();
  PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

// Runs Python's signal handlers; true if one raised. The exception stays pending in this thread
// until the wait's error is translated.
bool signal_raised() {
  if (PyThread_get_thread_ident() != main_thread || !Py_IsInitialized()) return false;
  const PyGILState_STATE gil = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0;
  PyGILState_Release(gil);
  return raised;
}

// ---- threads that execute records

// Library kernels run single-threaded and below autograd there for as long as the thread lives.
void prepare_thread() { thread_local const HostScope scope; }

void shutdown() {
  py::gil_scoped_release no_gil;
  Runtime::instance().shutdown();
  KernelCache::shutdown();
  IntraOpPool::shutdown();
}

void start() {
  main_thread =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  set_wait_hooks({&release_gil, &take_gil, &signal_raised});
  IntraOpPool::set_thread_preparation(&prepare_thread);
  HostTarget::set_thread_preparation(&prepare_thread);
  eager_mode();  // a mode that does not exist is an error of the import
  install_eager_executor();
  Runtime::start(std::make_unique<HostTarget>(HostTarget::Options::from_config()));
  register_hooks();
}

}  // namespace
}  // namespace neuron::glue

PYBIND11_MODULE(_C, m) {
  using namespace neuron::glue;
  start();
  add_device_bindings(m);
  add_memory_bindings(m);
  add_trace_bindings(m);
  add_eager_bindings(m);
  define(m, "shutdown", &shutdown);
}
