// SPDX-License-Identifier: Apache-2.0
//
// Operations whose elements follow from their positions.
#include "neuron/lower/pointwise.h"

namespace neuron {
namespace {

// The type that ATen adds up multiples of the step in.
DType arange_type(DType common) {
  if (!is_floating(common)) return DType::kInt64;
  return element_size(common) == 2 ? DType::kFloat32 : DType::kFloat64;
}

ValueId arange(PointwiseLowering& p) {
  GraphBuilder& b = p.builder();
  const DType type = arange_type(p.common());
  const auto own = [&](size_t i) {
    return b.convert(type, p.floating() ? p.own_f64(i) : p.own_i64(i));
  };
  return p.add(own(0), p.mul(b.convert(type, p.position()), own(1)));
}

// Both halves start from their own end, so that both ends are exact.
ValueId linspace(PointwiseLowering& p) {
  GraphBuilder& b = p.builder();
  const DType type = p.floating() ? b.dtype(p.own(0)) : DType::kFloat64;
  const ValueId start = b.convert(type, p.own(0)), end = b.convert(type, p.own(1));
  const ValueId one = b.constant_int(DType::kInt64, 1);
  const ValueId last = p.sub(p.count(), one);
  const ValueId step = p.div(p.sub(end, start), b.convert(type, last));
  const ValueId at = p.position();
  const ValueId up = p.add(start, p.mul(step, b.convert(type, at)));
  const ValueId down = p.sub(end, p.mul(step, b.convert(type, p.sub(last, at))));
  const ValueId half = p.bin(IrOp::kShr, p.count(), one);
  const ValueId value = p.select(p.bin(IrOp::kLt, at, half), up, down);
  return p.select(p.bin(IrOp::kEq, p.count(), one), start, value);
}

ValueId diagonal_of(PointwiseLowering& p) {
  return p.sub(p.position_along(0), p.position_along(1));
}

}  // namespace

bool lower_generators(PointwiseLowering& p) {
  switch (p.op()) {
    case LoweredOp::kArange:
      p.result(arange(p));
      break;
    case LoweredOp::kLinspace:
      p.result(linspace(p));
      break;
    case LoweredOp::kTril:
    case LoweredOp::kTriu: {
      const IrOp keeps = p.op() == LoweredOp::kTril ? IrOp::kLe : IrOp::kGe;
      const ValueId inside = p.bin(keeps, diagonal_of(p), p.own_i64(0));
      p.result(p.select(inside, p.rounded(0), p.builder().constant_int(p.common(), 0)));
      break;
    }
    case LoweredOp::kEye:
      p.result(p.bin(IrOp::kEq, p.position_along(0), p.position_along(1)));
      break;
    default:
      return false;
  }
  return true;
}

}  // namespace neuron
