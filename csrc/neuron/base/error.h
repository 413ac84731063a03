// SPDX-License-Identifier: Apache-2.0
//
// Error: the one exception type of the core.
//
// The core reports every failure by throwing `Error`. The boundaries (glue kernels, device threads,
// C entry points) catch it and translate: glue turns codes into the matching Python exception, a
// device thread stores it as the poison of the failed record's outputs.
//
//   throw Error(ErrorCode::kInvalidArgument, "stream priority must be ...");
//   throw Error(ErrorCode::kOutOfMemory, text).with_op("aten::mm.out").with_source("train.py:12");
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace neuron {

enum class ErrorCode : uint8_t {
  kInvalidArgument,  // the caller's input is wrong              -> ValueError / RuntimeError
  kOutOfMemory,      // device memory exhausted                  -> torch.OutOfMemoryError
  kUnsupported,      // no way to do this on the target          -> NotImplementedError
  kExecution,        // a queued operation failed                -> RuntimeError at the next sync
  kForked,           // used in a forked child                   -> RuntimeError
  kInterrupted,      // a wait was interrupted by a signal       -> KeyboardInterrupt
  kOutOfRange,       // an index in data is out of range            -> IndexError
  kInvalidValue,     // a value in data is not allowed              -> ValueError
  kLinearAlgebra,    // a matrix operation failed (singular ...)    -> torch.linalg.LinAlgError
  kInternal,         // a contract of the core broke (a bug)     -> RuntimeError
};

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  Error&& with_op(std::string op) && {
    op_ = std::move(op);
    return std::move(*this);
  }
  Error&& with_source(std::string source) && {
    source_ = std::move(source);
    return std::move(*this);
  }

  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& op() const noexcept { return op_; }          // empty: not tied to an op
  const std::string& source() const noexcept { return source_; }  // "file:line", may be empty
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
  std::string op_;
  std::string source_;
};

// Throws kInternal naming the broken contract; used for invariants, never for user input.
[[noreturn]] void throw_internal(const char* file, int line, const char* condition);

#define NEURON_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::neuron::throw_internal(__FILE__, __LINE__, #condition))

}  // namespace neuron
