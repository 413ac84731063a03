// SPDX-License-Identifier: Apache-2.0
//
// Comparisons, logic and bits.
#include <limits>

#include "neuron/lower/pointwise.h"

namespace neuron {
namespace {

DType integer_of_size(DType t) {
  switch (element_size(t)) {
    case 2:
      return DType::kInt16;
    case 4:
      return DType::kInt32;
    default:
      return DType::kInt64;
  }
}

// Integers are never NaN or infinite.
ValueId classify(PointwiseLowering& p) {
  const ValueId v = p.rounded(0);
  if (p.op() == LoweredOp::kIsNan) return p.bin(IrOp::kNe, v, v);
  if (!p.floating()) return p.bin(p.op() == LoweredOp::kIsFinite ? IrOp::kEq : IrOp::kNe, v, v);
  GraphBuilder& b = p.builder();
  const double infinity = std::numeric_limits<double>::infinity();
  switch (p.op()) {
    case LoweredOp::kIsInf:
      return p.bin(IrOp::kEq, p.un(IrOp::kAbs, v), b.constant(p.common(), infinity));
    case LoweredOp::kIsPosinf:
      return p.bin(IrOp::kEq, v, b.constant(p.common(), infinity));
    case LoweredOp::kIsNeginf:
      return p.bin(IrOp::kEq, v, b.constant(p.common(), -infinity));
    default:
      return p.bin(IrOp::kLt, p.un(IrOp::kAbs, v), b.constant(p.common(), infinity));
  }
}

ValueId sign_bit(PointwiseLowering& p) {
  GraphBuilder& b = p.builder();
  ValueId v = p.rounded(0);
  if (p.floating()) v = b.bitcast(integer_of_size(p.common()), v);
  return p.bin(IrOp::kLt, v, b.constant_int(b.dtype(v), 0));
}

}  // namespace

bool lower_comparison(PointwiseLowering& p) {
  const auto compare = [&](IrOp op) { p.result(p.bin(op, p.rounded(0), p.rounded(1))); };
  const auto logic = [&](IrOp op) {
    GraphBuilder& b = p.builder();
    p.result(
        p.bin(op, b.convert(DType::kBool, p.rounded(0)), b.convert(DType::kBool, p.rounded(1))));
  };
  switch (p.op()) {
    case LoweredOp::kEq:
      compare(IrOp::kEq);
      break;
    case LoweredOp::kNe:
      compare(IrOp::kNe);
      break;
    case LoweredOp::kLt:
      compare(IrOp::kLt);
      break;
    case LoweredOp::kLe:
      compare(IrOp::kLe);
      break;
    case LoweredOp::kGt:
      compare(IrOp::kGt);
      break;
    case LoweredOp::kGe:
      compare(IrOp::kGe);
      break;
    case LoweredOp::kLogicalAnd:
      logic(IrOp::kAnd);
      break;
    case LoweredOp::kLogicalOr:
      logic(IrOp::kOr);
      break;
    case LoweredOp::kLogicalXor:
      logic(IrOp::kXor);
      break;
    case LoweredOp::kLogicalNot:
      p.result(p.un(IrOp::kNot, p.builder().convert(DType::kBool, p.rounded(0))));
      break;
    case LoweredOp::kIsNan:
    case LoweredOp::kIsInf:
    case LoweredOp::kIsFinite:
    case LoweredOp::kIsPosinf:
    case LoweredOp::kIsNeginf:
      p.result(classify(p));
      break;
    case LoweredOp::kSignbit:
      p.result(sign_bit(p));
      break;
    case LoweredOp::kBitwiseAnd:
      compare(IrOp::kAnd);
      break;
    case LoweredOp::kBitwiseOr:
      compare(IrOp::kOr);
      break;
    case LoweredOp::kBitwiseXor:
      compare(IrOp::kXor);
      break;
    case LoweredOp::kBitwiseNot:
      p.result(p.un(IrOp::kNot, p.rounded(0)));
      break;
    case LoweredOp::kShiftLeft:
      compare(IrOp::kShl);
      break;
    case LoweredOp::kShiftRight:
      compare(IrOp::kShr);
      break;
    default:
      return false;
  }
  return true;
}

}  // namespace neuron
