// SPDX-License-Identifier: Apache-2.0
//
// Running the body of a host call: single-threaded libraries, no autograd, and PyTorch's exceptions
// turned into core errors that keep their Python type, without the C++ backtrace.
//
//   void run() override { run_on_host([&] { at::native::...; }); }
#pragma once

#include <c10/util/Exception.h>

#include <utility>

#include "neuron/base/error.h"
#include "torch/alias.h"

namespace neuron::glue {

// The core error for the exception being handled; call from a catch block.
[[noreturn]] void throw_as_core_error();

template <typename F>
void run_on_host(F&& f) {
  HostScope scope;
  try {
    std::forward<F>(f)();
  } catch (...) {
    throw_as_core_error();
  }
}

}  // namespace neuron::glue
