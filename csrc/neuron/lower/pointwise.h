// SPDX-License-Identifier: Apache-2.0
//
// PointwiseLowering: the vocabulary that pointwise lowerings are written in. `x(i)` is operand i in
// the type that ATen computes in, `rounded(i)` in the common dtype, `raw(i)` as it lies in memory.
#pragma once

#include <optional>

#include "neuron/lower/lowering.h"

namespace neuron {

class PointwiseLowering : public LoweringBase {
 public:
  PointwiseLowering(const OpRecord& record, const Canonical& canonical);

  LoweredOp op() const { return static_cast<LoweredOp>(record_.op); }
  DType common() const { return common_; }
  bool floating() const { return is_floating(common_); }

  ValueId x(size_t i) { return operand(i, compute_); }
  ValueId rounded(size_t i) { return operand(i, common_); }
  ValueId raw(size_t i);
  ValueId own(size_t i);      // the op's value word i, in the computing type
  ValueId own_f64(size_t i);  // one that holds an f64, as that
  ValueId own_i64(size_t i);  // one that holds an i64
  ValueId c(double value) { return b_.constant(compute_, value); }

  ValueId un(IrOp op, ValueId a) { return b_.unary(op, a); }
  ValueId bin(IrOp op, ValueId a, ValueId b) { return b_.binary(op, a, b); }
  ValueId add(ValueId a, ValueId b) { return bin(IrOp::kAdd, a, b); }
  ValueId sub(ValueId a, ValueId b) { return bin(IrOp::kSub, a, b); }
  ValueId mul(ValueId a, ValueId b) { return bin(IrOp::kMul, a, b); }
  ValueId div(ValueId a, ValueId b) { return bin(IrOp::kDiv, a, b); }
  ValueId exp(ValueId a) { return un(IrOp::kExp, a); }
  ValueId select(ValueId p, ValueId a, ValueId b) { return b_.select(p, a, b); }
  ValueId truth(size_t i) { return b_.convert(DType::kBool, raw(i)); }
  ValueId sigmoid(ValueId a) { return un(IrOp::kSigmoid, a); }

  // Families of generator_ops.h: the element's number in row-major order, how many there are, and
  // the position along the dim `from_last` before the last.
  ValueId position();
  ValueId count();
  ValueId position_along(int from_last);
  // Word `word` of the random block of the element.
  ValueId random_word(int word);

  // The result in the computing type, the common dtype or i1: rounded to the common dtype unless
  // i1, then converted to the output's.
  void result(ValueId value) { result(0, value); }
  void result(size_t output, ValueId value);

  GraphBuilder& builder() { return b_; }

 private:
  size_t own_word(size_t i) const;
  ValueId operand(size_t i, DType dtype);
  bool is_scalar(size_t i) const { return (scalar_mask_ >> i & 1) != 0; }

  DType common_;
  DType compute_;
  uint64_t scalar_mask_;
};

// Each handles a group of ops; false if the op is not of the group.
bool lower_arithmetic(PointwiseLowering& p);
bool lower_comparison(PointwiseLowering& p);
bool lower_functions(PointwiseLowering& p);
bool lower_activations(PointwiseLowering& p);
bool lower_activation_gradients(PointwiseLowering& p);
bool lower_generators(PointwiseLowering& p);
bool lower_random(PointwiseLowering& p);
bool lower_loss_gradients(PointwiseLowering& p);
bool lower_more_pointwise(PointwiseLowering& p);

}  // namespace neuron
