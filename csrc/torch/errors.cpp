// SPDX-License-Identifier: Apache-2.0
#include "torch/errors.h"

#include <Python.h>
#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include "torch/host_run.h"

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
    case ErrorCode::kOutOfRange:
      TORCH_CHECK_INDEX(false, error.message());
    case ErrorCode::kInvalidValue:
      TORCH_CHECK_VALUE(false, error.message());
    case ErrorCode::kLinearAlgebra:
      TORCH_CHECK_LINALG(false, error.message());
    default:
      TORCH_CHECK(false, error.message());
  }
}

void throw_as_core_error() {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const c10::IndexError& e) {
    throw Error(ErrorCode::kOutOfRange, e.what_without_backtrace());
  } catch (const c10::ValueError& e) {
    throw Error(ErrorCode::kInvalidValue, e.what_without_backtrace());
  } catch (const c10::LinAlgError& e) {
    throw Error(ErrorCode::kLinearAlgebra, e.what_without_backtrace());
  } catch (const c10::NotImplementedError& e) {
    throw Error(ErrorCode::kUnsupported, e.what_without_backtrace());
  } catch (const c10::Error& e) {
    throw Error(ErrorCode::kExecution, e.what_without_backtrace());
  }
}

}  // namespace neuron::glue
