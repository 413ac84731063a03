// SPDX-License-Identifier: Apache-2.0
//
// NormLowering: the vocabulary of norms. Operands are named by their place in the list of
// norm_ops.h; everything is computed in the input's opmath type.
#pragma once

#include <bit>

#include "neuron/lower/attributes.h"
#include "neuron/lower/lowering.h"

namespace neuron {

class NormLowering : public LoweringBase {
 public:
  NormLowering(const OpRecord& record, const Canonical& canonical)
      : LoweringBase(record, canonical),
        present_(attribute_word(record.attributes, 1)),
        compute_(opmath(record.inputs[0].dtype)) {}

 protected:
  static constexpr size_t kValueWord = 3;  // the first one

  LoweredOp op() const { return static_cast<LoweredOp>(record_.op); }
  bool present(size_t operand) const { return (present_ >> operand & 1) != 0; }
  ValueId x(size_t operand) {
    const uint64_t before = present_ & ((uint64_t{1} << operand) - 1);
    return b_.convert(compute_, load(static_cast<size_t>(std::popcount(before))));
  }
  ValueId value(size_t i, DType dtype) { return scalar(kValueWord + i, true, dtype); }
  ValueId value(size_t i) { return value(i, compute_); }
  ValueId c(double v) { return b_.constant(compute_, v); }

  ValueId add(ValueId a, ValueId b) { return b_.binary(IrOp::kAdd, a, b); }
  ValueId sub(ValueId a, ValueId b) { return b_.binary(IrOp::kSub, a, b); }
  ValueId mul(ValueId a, ValueId b) { return b_.binary(IrOp::kMul, a, b); }
  ValueId div(ValueId a, ValueId b) { return b_.binary(IrOp::kDiv, a, b); }
  ValueId sqrt(ValueId a) { return b_.unary(IrOp::kSqrt, a); }
  ValueId sum(ValueId v) { return b_.reduce(IrOp::kReduceSum, v); }
  ValueId rows() { return row_count(compute_); }
  ValueId mean(ValueId v) { return div(sum(v), rows()); }
  // 1 / sqrt(v + eps)
  ValueId inverse_spread(ValueId v, size_t eps) { return div(c(1), sqrt(add(v, value(eps)))); }

  // For gradients that may not be wanted.
  void store_wanted(int output, ValueId v) {
    if (output >= 0) store(static_cast<size_t>(output), v);
  }

  const uint64_t present_;
  const DType compute_;
};

}  // namespace neuron
