// SPDX-License-Identifier: Apache-2.0
//
// The parts of the Python module torch_neuronx._C. Functions raise PyTorch's exceptions; those that
// may wait release the GIL by themselves (the wait hooks, see module.cpp).
#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include <utility>

#include "torch/errors.h"

namespace neuron::glue {

void add_device_bindings(pybind11::module_& m);  // devices, streams, random numbers
void add_memory_bindings(pybind11::module_& m);  // snapshot and history
void add_trace_bindings(pybind11::module_& m);   // counters, operator counts, configuration
void add_eager_bindings(pybind11::module_& m);   // the eager mode, the log of windows

// Defines a module function whose C++ exceptions, the core's included, become PyTorch's.
template <typename R, typename... Args, typename... Extra>
void define(pybind11::module_& m, const char* name, R (*function)(Args...), Extra&&... extra) {
  m.def(name, torch::wrap_pybind_function([function](Args... args) -> R {
          return guarded([&]() -> R { return function(std::forward<Args>(args)...); });
        }),
        std::forward<Extra>(extra)...);
}

}  // namespace neuron::glue
