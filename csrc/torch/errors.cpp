// SPDX-License-Identifier: Apache-2.0
#include "torch/errors.h"

#include <Python.h>
#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

namespace neuron::glue {

void rethrow(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kOutOfMemory:
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.message());
    case ErrorCode::kUnsupported:
      TORCH_CHECK_NOT_IMPLEMENTED(false, error.message());
    case ErrorCode::kInterrupted: {
      // The interruption hook left the Python exception pending in this thread.
      PyGILState_STATE gil = PyGILState_Ensure();
      python_error pending;
      pending.persist();
      PyGILState_Release(gil);
      throw pending;
    }
    default:
      TORCH_CHECK(false, error.message());
  }
}

}  // namespace neuron::glue
