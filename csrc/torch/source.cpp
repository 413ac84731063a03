// SPDX-License-Identifier: Apache-2.0
#include "torch/source.h"

#define Py_BUILD_CORE 1  // for the layout of interpreter frames
#include <Python.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include <array>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "neuron/base/config.h"
#include "neuron/trace/source_table.h"
#include "torch/backward_source.h"

namespace neuron::glue {
namespace {

using Frame = _PyInterpreterFrame;

#if PY_VERSION_HEX >= 0x030D0000
Frame* current_frame(PyThreadState* thread) { return thread->current_frame; }
PyCodeObject* code_of(Frame* f) {
  PyObject* executable = f->f_executable;
  return executable != nullptr && PyCode_Check(executable)
             ? reinterpret_cast<PyCodeObject*>(executable)
             : nullptr;
}
const void* instruction(Frame* f) { return f->instr_ptr; }
#else
Frame* current_frame(PyThreadState* thread) { return thread->cframe->current_frame; }
PyCodeObject* code_of(Frame* f) { return f->f_code; }
const void* instruction(Frame* f) { return f->prev_instr; }
#endif

enum class Owner : uint8_t {
  kUser,
  kLibrary,
  kEngine,  // the function of PyTorch that calls autograd's engine
};

// What is known about a code object that the process has met; entries keep it alive.
struct Known {
  std::mutex mutex;
  std::unordered_map<PyCodeObject*, Owner> owners;      // guarded by mutex
  std::unordered_map<const void*, SourceId> sources;    // guarded by mutex, by instruction address
};

Known& known() {
  static auto* instance = new Known;
  return *instance;
}

// Per-thread direct-mapped caches over `known`: a hit takes no lock.
struct Cache {
  struct Code {
    PyCodeObject* code = nullptr;
    Owner owner = Owner::kUser;
  };
  struct Line {
    const void* instruction = nullptr;
    SourceId source = 0;
  };
  std::array<Code, 512> codes;
  std::array<Line, 2048> lines;
};
thread_local Cache cache;

size_t hash(const void* p) {
  return (reinterpret_cast<uintptr_t>(p) * 0x9E3779B97F4A7C15ull) >> 40;
}

std::vector<std::string> library_paths;  // set once at import, read-only afterwards

bool in_library(std::string_view file) {
  for (const std::string& path : library_paths) {
    if (file.starts_with(path)) return true;
  }
  return file.starts_with("<frozen");
}

std::string text_of(PyObject* unicode) {
  const char* text = unicode != nullptr ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return text;
}

// Slow path, once per code object.
Owner classify(PyCodeObject* code) {
  Known& k = known();
  {
    std::lock_guard lock(k.mutex);
    auto it = k.owners.find(code);
    if (it != k.owners.end()) return it->second;
  }
  const PyGILState_STATE gil = PyGILState_Ensure();
  Py_INCREF(code);
  const bool library = in_library(text_of(code->co_filename));
  const bool engine = library && text_of(code->co_name) == "_engine_run_backward";
  PyGILState_Release(gil);
  std::lock_guard lock(k.mutex);
  const Owner owner = engine ? Owner::kEngine : library ? Owner::kLibrary : Owner::kUser;
  return k.owners.try_emplace(code, owner).first->second;
}

// Slow path, once per instruction that records an operation. The frame is this thread's own, so it
// keeps its code object alive meanwhile.
SourceId resolve(Frame* frame, PyCodeObject* code) {
  const void* at = instruction(frame);
  Known& k = known();
  {
    std::lock_guard lock(k.mutex);
    auto it = k.sources.find(at);
    if (it != k.sources.end()) return it->second;
  }
  const PyGILState_STATE gil = PyGILState_Ensure();
  const auto offset = static_cast<int>(static_cast<const char*>(at) -
                                       reinterpret_cast<const char*>(_PyCode_CODE(code)));
  const int line = PyCode_Addr2Line(code, offset);
  std::string text = text_of(code->co_filename) + ":" + std::to_string(line) + " in " +
                     text_of(code->co_name);
  PyGILState_Release(gil);
  const SourceId id = intern_source(text);
  std::lock_guard lock(k.mutex);
  return k.sources.try_emplace(at, id).first->second;
}

Owner owner_of(PyCodeObject* code) {
  Cache::Code& entry = cache.codes[hash(code) % cache.codes.size()];
  if (entry.code != code) entry = {code, classify(code)};
  return entry.owner;
}

// The line of the innermost user's frame. `from_engine`: no Python code is between autograd's engine
// and the operation.
SourceId user_line(bool* from_engine) {
  *from_engine = true;
  PyThreadState* thread = PyGILState_GetThisThreadState();
  if (thread == nullptr) return 0;
  bool innermost = true;
  for (Frame* f = current_frame(thread); f != nullptr; f = f->previous) {
    PyCodeObject* code = code_of(f);
    if (code == nullptr) continue;
    const Owner owner = owner_of(code);
    if (innermost) *from_engine = owner == Owner::kEngine;
    innermost = false;
    if (owner != Owner::kUser) continue;
    const void* at = instruction(f);
    Cache::Line& entry = cache.lines[hash(at) % cache.lines.size()];
    if (entry.instruction != at) entry = {at, resolve(f, code)};
    return entry.source;
  }
  return 0;
}

}  // namespace

void set_library_paths(std::vector<std::string> directories) {
  library_paths = std::move(directories);
}

SourceId current_source() noexcept {
  if (!config().enable_stack_trace) return 0;
  bool from_engine;
  const SourceId line = user_line(&from_engine);
  return with_backward(line, from_engine);
}

}  // namespace neuron::glue
