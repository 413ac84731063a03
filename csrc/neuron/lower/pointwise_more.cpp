// SPDX-License-Identifier: Apache-2.0
//
// The operations of pointwise_ops.h. The formulas are those of ATen's kernels.
#include <limits>
#include <numbers>

#include "neuron/lower/pointwise.h"

namespace neuron {
namespace {

// By squaring, a step for every bit that a non-negative exponent may have.
ValueId integer_power(PointwiseLowering& p) {
  GraphBuilder& b = p.builder();
  const DType type = p.common();
  const auto whole = [&](int64_t v) { return b.constant_int(type, v); };
  const ValueId base = p.rounded(0), exponent = p.rounded(1);
  const auto has_bit = [&](int bit) {
    const ValueId masked = p.bin(IrOp::kAnd, exponent, whole(int64_t{1} << bit));
    return p.bin(IrOp::kNe, masked, whole(0));
  };
  const int bits = 8 * static_cast<int>(element_size(type)) - (type == DType::kUInt8 ? 0 : 1);
  ValueId power = whole(1), square = base;
  for (int bit = 0; bit < bits; ++bit) {
    power = p.select(has_bit(bit), p.mul(power, square), power);
    if (bit + 1 < bits) square = p.mul(square, square);
  }
  if (type == DType::kUInt8) return power;
  const ValueId alternating = p.select(has_bit(0), whole(-1), whole(1));
  const ValueId other = p.select(p.bin(IrOp::kEq, base, whole(-1)), alternating, whole(0));
  const ValueId inverse = p.select(p.bin(IrOp::kEq, base, whole(1)), whole(1), other);
  return p.select(p.bin(IrOp::kLt, exponent, whole(0)), inverse, power);
}

// Reflection below 1/2, six steps of the recurrence, then the asymptotic series.
ValueId trigamma(PointwiseLowering& p) {
  const ValueId x = p.x(0), one = p.c(1), zero = p.c(0);
  const ValueId reflected = p.bin(IrOp::kLt, x, p.c(0.5));
  const ValueId sine = p.un(IrOp::kSin, p.mul(p.c(std::numbers::pi), x));
  const ValueId poles = p.div(p.c(std::numbers::pi * std::numbers::pi), p.mul(sine, sine));
  ValueId result = p.select(reflected, p.un(IrOp::kNeg, poles), zero);
  ValueId t = p.select(reflected, p.sub(one, x), x);
  for (int i = 0; i < 6; ++i) {
    result = p.add(result, p.div(one, p.mul(t, t)));
    t = p.add(t, one);
  }
  const ValueId u = p.div(one, p.mul(t, t));
  ValueId series = p.sub(p.c(1.0 / 30), p.mul(u, p.c(1.0 / 42)));
  series = p.mul(u, p.sub(p.c(1.0 / 6), p.mul(u, series)));
  series = p.add(p.add(one, p.div(one, p.mul(p.c(2), t))), series);
  result = p.add(result, p.div(series, t));
  return p.select(reflected, p.un(IrOp::kNeg, result), result);
}

ValueId is_nan(PointwiseLowering& p, ValueId x) { return p.bin(IrOp::kNe, x, x); }

ValueId entropy(PointwiseLowering& p) {
  const ValueId x = p.x(0), zero = p.c(0);
  const ValueId inside = p.mul(p.un(IrOp::kNeg, x), p.un(IrOp::kLog, x));
  const ValueId outside =
      p.select(p.bin(IrOp::kEq, x, zero), zero, p.c(-std::numeric_limits<double>::infinity()));
  return p.select(is_nan(p, x), x, p.select(p.bin(IrOp::kGt, x, zero), inside, outside));
}

ValueId logit_gradient(PointwiseLowering& p) {
  const ValueId x = p.x(1), eps = p.own(0);
  const ValueId outside =
      p.bin(IrOp::kOr, p.bin(IrOp::kLt, x, eps), p.bin(IrOp::kGt, x, p.sub(p.c(1), eps)));
  return p.select(outside, p.c(0), p.div(p.x(0), p.mul(x, p.sub(p.c(1), x))));
}

}  // namespace

bool lower_more_pointwise(PointwiseLowering& p) {
  switch (p.op()) {
    case LoweredOp::kPowInt:
      p.result(integer_power(p));
      break;
    case LoweredOp::kHeaviside: {
      const ValueId x = p.rounded(0), zero = p.builder().constant_int(p.common(), 0);
      const ValueId step = p.builder().convert(p.common(), p.bin(IrOp::kGt, x, zero));
      p.result(p.select(p.bin(IrOp::kEq, x, zero), p.rounded(1), step));
      break;
    }
    case LoweredOp::kXlog1py: {
      const ValueId x = p.x(0), y = p.x(1);
      const ValueId product = p.mul(x, p.un(IrOp::kLog1p, y));
      const ValueId value = p.select(p.bin(IrOp::kEq, x, p.c(0)), p.c(0), product);
      p.result(p.select(is_nan(p, y), y, value));
      break;
    }
    case LoweredOp::kEntr:
      p.result(entropy(p));
      break;
    case LoweredOp::kTrigamma:
      p.result(trigamma(p));
      break;
    case LoweredOp::kAngle: {
      const ValueId x = p.x(0);
      const ValueId half_turn =
          p.select(p.bin(IrOp::kLt, x, p.c(0)), p.c(std::numbers::pi), p.c(0));
      p.result(p.select(is_nan(p, x), x, half_turn));
      break;
    }
    case LoweredOp::kRoundDecimals:
      p.result(p.div(p.un(IrOp::kRound, p.mul(p.x(0), p.own(0))), p.own(0)));
      break;
    case LoweredOp::kRoundTens:
      p.result(p.mul(p.un(IrOp::kRound, p.div(p.x(0), p.own(0))), p.own(0)));
      break;
    case LoweredOp::kLogitBackwardClamped:
      p.result(logit_gradient(p));
      break;
    case LoweredOp::kNativeDropoutBackward: {
      const ValueId x = p.x(0);
      const ValueId mask = p.builder().convert(p.builder().dtype(x), p.truth(1));
      p.result(p.mul(x, p.mul(mask, p.own(0))));
      break;
    }
    case LoweredOp::kPrelu:
      p.result(p.select(p.bin(IrOp::kGt, p.x(0), p.c(0)), p.x(0), p.mul(p.x(1), p.x(0))));
      break;
    case LoweredOp::kPreluBackward: {
      const ValueId g = p.x(0), x = p.x(1);
      const ValueId positive = p.bin(IrOp::kGt, x, p.c(0));
      p.result(0, p.select(positive, g, p.mul(p.x(2), g)));
      p.result(1, p.select(positive, p.c(0), p.mul(x, g)));
      break;
    }
    case LoweredOp::kGlu:
      p.result(p.mul(p.x(0), p.sigmoid(p.x(1))));
      break;
    case LoweredOp::kGluBackward: {
      const ValueId g = p.x(0), gate = p.sigmoid(p.x(2));
      p.result(0, p.mul(gate, g));
      const ValueId slope = p.mul(p.sub(p.c(1), gate), gate);
      p.result(1, p.mul(p.mul(slope, g), p.x(1)));
      break;
    }
    default:
      return false;
  }
  return true;
}

}  // namespace neuron
