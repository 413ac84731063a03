// SPDX-License-Identifier: Apache-2.0
//
// LoweredCall: from a dispatcher call to a record of an operation that the core lowers
// (neuron/lower/op_table.h says how each is encoded).
//
// `record` answers false, and records nothing, where the core has no kernel: complex or opaque
// types, integers for operations that have no meaning for them, more than kMaxRank dims, conjugate or
// negative views. The caller then records a host call (torch/op_call.h), which is counted as one.
//
//   if (pointwise(LoweredOp::kMul, common, out, self, other)) return;
//   if (reduce(LoweredOp::kSum, dtype, {&out}, self, dims, keepdim)) return;
//
// Operands that live on the host must be scalars (0-dim CPU tensors, numbers): their values become
// run-time arguments of the kernel. Not thread-safe; lives on the stack of one kernel call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/SmallVector.h>

#include <initializer_list>
#include <optional>
#include <type_traits>

#include "neuron/lower/attributes.h"
#include "neuron/lower/op_table.h"

namespace neuron::glue {

// kOpaque for types that the core does not compute with.
DType to_dtype(at::ScalarType type);

class LoweredCall {
 public:
  explicit LoweredCall(LoweredOp op) : op_(op) {}

  // The tensors in the order of the encoding.
  void write(const at::Tensor& tensor) { add(tensor, true); }
  void read(const at::Tensor& tensor) { add(tensor, false); }

  // All structural words come before all values.
  void structural(int64_t word) { attributes_.structural(word); }
  void value(double word) { attributes_.value(word); }
  void value(int64_t word) { attributes_.value(word); }

  // Makes `record` answer false.
  void refuse() { possible_ = false; }
  bool possible() const { return possible_; }

  bool record();

 private:
  void add(const at::Tensor& tensor, bool written);

  const LoweredOp op_;
  bool possible_ = true;
  c10::DeviceIndex device_ = -1;
  uint8_t input_count_ = 0;
  uint8_t output_count_ = 0;
  std::array<TensorRef, 8> inputs_;
  std::array<TensorRef, 4> outputs_;
  AttributeWriter attributes_;
};

// ---- pointwise -----------------------------------------------------------------------------------

// An argument of a pointwise operation: a tensor, or a number.
struct PointwiseArgument {
  PointwiseArgument(const at::Tensor& t) : tensor(&t) {}            // NOLINT: implicit
  PointwiseArgument(const at::Scalar& s) : number(&s) {}            // NOLINT: implicit
  PointwiseArgument(double v) : plain(v) {}                         // NOLINT: implicit

  const at::Tensor* tensor = nullptr;
  const at::Scalar* number = nullptr;
  double plain = 0;
};

// Records `out = op(arguments)`. The first arguments are the operands, the rest the operation's own
// values, as the table says. `common` is the type that PyTorch's promotion gives; undefined: that
// of the first tensor.
bool pointwise(LoweredOp op, at::ScalarType common, const at::Tensor& out,
               std::initializer_list<PointwiseArgument> arguments);

// The operation that `pow` with a number as exponent is.
bool power(const at::Tensor& out, const at::Tensor& self, const at::Scalar& exponent);

// ---- along dims ----------------------------------------------------------------------------------

// Dims may be negative; none, or an empty list, stands for all.
bool reduce(LoweredOp op, at::ScalarType common, std::initializer_list<const at::Tensor*> outputs,
               const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
               std::initializer_list<double> values = {});
inline bool reduce(LoweredOp op, at::ScalarType common,
                      std::initializer_list<const at::Tensor*> outputs, const at::Tensor& self,
                      int64_t dim, bool keepdim) {
  return reduce(op, common, outputs, self, at::IntArrayRef(dim), keepdim);
}
inline bool reduce(LoweredOp op, at::ScalarType common,
                      std::initializer_list<const at::Tensor*> outputs, const at::Tensor& self,
                      std::optional<int64_t> dim, bool keepdim) {
  return reduce(op, common, outputs, self,
                   dim.has_value() ? at::IntArrayRef(*dim) : at::IntArrayRef(), keepdim);
}
bool vector_norm(const at::Tensor& out, const at::Tensor& self, const at::Scalar& order,
                 at::OptionalIntArrayRef dims, bool keepdim);

bool softmax(LoweredOp op, at::ScalarType common, const at::Tensor& out,
             std::initializer_list<const at::Tensor*> inputs, int64_t dim);

}  // namespace neuron::glue
