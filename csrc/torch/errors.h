// SPDX-License-Identifier: Apache-2.0
//
// Translation of core errors at the boundary to PyTorch.
//
//   return guarded([&] { return stream.synchronize(); });
//
// kOutOfMemory becomes torch.OutOfMemoryError, kInvalidArgument and the rest RuntimeError,
// kUnsupported NotImplementedError; kInterrupted raises the pending Python exception
// (KeyboardInterrupt).
#pragma once

#include <utility>

#include "neuron/base/error.h"

namespace neuron::glue {

[[noreturn]] void rethrow(const Error& error);

template <typename F>
decltype(auto) guarded(F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const Error& error) {
    rethrow(error);
  }
}

}  // namespace neuron::glue
