// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <limits>
#include <string>
#include <utility>

#include "neuron/base/process.h"
#include "torch/bindings.h"
#include "torch/current.h"
#include "torch/generator.h"
#include "torch/hooks.h"

namespace neuron::glue {
namespace py = pybind11;
namespace {

struct PyDeviceProperties {
  DeviceProperties core;
  int index;
};

PyDeviceProperties properties(int device) {
  Runtime& runtime = Runtime::instance();
  if (device < 0 || device >= runtime.device_count()) runtime.device(device);  // throws
  return {runtime.target().properties(device), device};
}

std::string describe(const PyDeviceProperties& p) {
  return "NeuronDeviceProperties(name='" + p.core.name + "', index=" + std::to_string(p.index) +
         ", total_memory=" + std::to_string(p.core.total_memory >> 20) +
         "MB, is_virtual=" + (p.core.is_virtual ? "True" : "False") + ")";
}

void set_device(int device) {
  if (device < 0 || device > std::numeric_limits<c10::DeviceIndex>::max()) {
    Runtime::instance().device(device);  // throws
  }
  set_current_device(static_cast<c10::DeviceIndex>(device));
}

void initialize() {
  check_not_forked();
  Runtime::instance().device(current_device());
}

int priority_of(int device, int64_t id) {
  return Runtime::instance().device(device).stream(id).priority();
}

// The id of the stream behind a native handle. Handles are compared, never followed; ids are dense,
// so the first one that does not exist ends the search with its error.
int64_t stream_of_handle(int device, uintptr_t handle) {
  Device& core = Runtime::instance().device(device);
  for (int64_t id = 0;; ++id) {
    if (reinterpret_cast<uintptr_t>(&core.stream(id)) == handle) return id;
  }
}

at::Generator generator_of(int device) {
  return default_generator(static_cast<c10::DeviceIndex>(device));
}

}  // namespace

void add_device_bindings(py::module_& m) {
  py::class_<PyDeviceProperties>(m, "NeuronDeviceProperties")
      .def_property_readonly("name", [](const PyDeviceProperties& p) { return p.core.name; })
      .def_property_readonly("index", [](const PyDeviceProperties& p) { return p.index; })
      .def_property_readonly("total_memory",
                             [](const PyDeviceProperties& p) { return p.core.total_memory; })
      .def_property_readonly("is_virtual",
                             [](const PyDeviceProperties& p) { return p.core.is_virtual; })
      .def("__repr__", &describe);

  define(m, "device_count", +[] { return static_cast<int>(device_count()); });
  define(m, "is_initialized", +[] { return Runtime::initialized(); });
  define(m, "is_in_bad_fork", +[] { return in_forked_child(); });
  define(m, "initialize", &initialize);
  define(m, "device_properties", &properties);
  define(m, "current_device", +[] { return static_cast<int>(current_device()); });
  define(m, "set_device", &set_device);
  define(m, "synchronize", +[](int device) { Runtime::instance().device(device).synchronize(); });
  define(m, "stream_priority", &priority_of);
  define(m, "stream_priority_range",
         +[] { return std::pair(Stream::kLowPriority, Stream::kHighPriority); });
  define(m, "stream_of_handle", &stream_of_handle);
  define(m, "default_generator", &generator_of);
}

}  // namespace neuron::glue
