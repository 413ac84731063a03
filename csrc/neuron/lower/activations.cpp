// SPDX-License-Identifier: Apache-2.0
//
// Activations. The formulas are those of ATen's kernels, operation by operation.
#include <limits>
#include <numbers>

#include "neuron/lower/pointwise.h"

namespace neuron {
namespace {

constexpr double kGeluCubic = 0.044715;
const double kGeluScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)

ValueId clamp(PointwiseLowering& p, ValueId v, ValueId low, ValueId high) {
  return p.bin(IrOp::kMin, p.bin(IrOp::kMax, v, low), high);
}

// min(max(x + 3, 0), 6)
ValueId shifted_relu6(PointwiseLowering& p) {
  return clamp(p, p.add(p.x(0), p.c(3)), p.c(0), p.c(6));
}

ValueId gelu_inner(PointwiseLowering& p, ValueId x) {
  const ValueId cube = p.mul(p.mul(x, x), x);
  return p.mul(p.c(kGeluScale), p.add(x, p.mul(p.c(kGeluCubic), cube)));
}

ValueId negative_exp_abs(PointwiseLowering& p, ValueId x) {
  return p.exp(p.un(IrOp::kNeg, p.un(IrOp::kAbs, x)));
}

ValueId normal_cdf(PointwiseLowering& p, ValueId x) {
  const ValueId erf = p.un(IrOp::kErf, p.mul(x, p.c(1 / std::numbers::sqrt2)));
  return p.mul(p.c(0.5), p.add(p.c(1), erf));
}

ValueId gelu_tanh_slope(PointwiseLowering& p, ValueId x) {
  const ValueId square = p.mul(x, x);
  const ValueId tanh = p.un(IrOp::kTanh, gelu_inner(p, x));
  const ValueId left = p.mul(p.c(0.5), x), right = p.add(p.c(1), tanh);
  const ValueId tanh_slope = p.sub(p.c(1), p.mul(tanh, tanh));
  const ValueId inner_slope =
      p.mul(p.c(kGeluScale), p.add(p.c(1), p.mul(p.c(3 * kGeluCubic), square)));
  return p.add(p.mul(p.c(0.5), right), p.mul(p.mul(left, tanh_slope), inner_slope));
}

ValueId within(PointwiseLowering& p, ValueId x, ValueId bound) {
  return p.bin(IrOp::kAnd, p.bin(IrOp::kGe, x, p.un(IrOp::kNeg, bound)),
               p.bin(IrOp::kLe, x, bound));
}

}  // namespace

bool lower_activations(PointwiseLowering& p) {
  const auto x = [&] { return p.x(0); };
  switch (p.op()) {
    case LoweredOp::kRelu:
      p.result(p.bin(IrOp::kMax, x(), p.c(0)));
      break;
    case LoweredOp::kLeakyRelu:
      p.result(p.select(p.bin(IrOp::kGt, x(), p.c(0)), x(), p.mul(x(), p.own(0))));
      break;
    case LoweredOp::kThreshold:
      p.result(p.select(p.bin(IrOp::kLe, x(), p.own(0)), p.own(1), x()));
      break;
    case LoweredOp::kElu: {
      const ValueId negative =
          p.mul(p.un(IrOp::kExpm1, p.mul(x(), p.own(2))), p.mul(p.own(0), p.own(1)));
      p.result(p.select(p.bin(IrOp::kLt, x(), p.c(0)), negative, p.mul(x(), p.own(1))));
      break;
    }
    case LoweredOp::kGelu:
      p.result(p.mul(x(), normal_cdf(p, x())));
      break;
    case LoweredOp::kGeluTanh:
      p.result(p.mul(p.mul(p.c(0.5), x()), p.add(p.c(1), p.un(IrOp::kTanh, gelu_inner(p, x())))));
      break;
    case LoweredOp::kSilu:
      p.result(p.div(x(), p.add(p.c(1), p.exp(p.un(IrOp::kNeg, x())))));
      break;
    case LoweredOp::kMish:
      p.result(p.mul(x(), p.un(IrOp::kTanh, p.un(IrOp::kLog1p, p.exp(x())))));
      break;
    case LoweredOp::kSoftplus: {
      const ValueId scaled = p.mul(x(), p.own(0));
      p.result(p.select(p.bin(IrOp::kGt, scaled, p.own(1)), x(),
                        p.div(p.un(IrOp::kLog1p, p.exp(scaled)), p.own(0))));
      break;
    }
    case LoweredOp::kHardtanh:
      p.result(clamp(p, x(), p.own(0), p.own(1)));
      break;
    case LoweredOp::kHardsigmoid:
      p.result(p.div(shifted_relu6(p), p.c(6)));
      break;
    case LoweredOp::kHardswish:
      p.result(p.div(p.mul(x(), shifted_relu6(p)), p.c(6)));
      break;
    case LoweredOp::kHardshrink:
      p.result(p.select(within(p, x(), p.own(0)), p.c(0), x()));
      break;
    case LoweredOp::kSoftshrink: {
      const ValueId lambda = p.own(0);
      const ValueId below = p.select(p.bin(IrOp::kLt, x(), p.un(IrOp::kNeg, lambda)),
                                     p.add(x(), lambda), p.mul(x(), p.c(0)));
      p.result(p.select(p.bin(IrOp::kGt, x(), lambda), p.sub(x(), lambda), below));
      break;
    }
    case LoweredOp::kLogSigmoid:
      p.result(p.sub(p.bin(IrOp::kMin, x(), p.c(0)), p.un(IrOp::kLog1p, negative_exp_abs(p, x()))));
      break;
    default:
      return false;
  }
  return true;
}

bool lower_activation_gradients(PointwiseLowering& p) {
  // Most take (grad, x); sigmoid's, tanh's and elu's with is_result take (grad, result).
  const ValueId g = p.x(0), x = p.x(1);
  const ValueId zero = p.c(0), one = p.c(1);
  switch (p.op()) {
    case LoweredOp::kSigmoidBackward:
      p.result(p.mul(p.mul(g, p.sub(one, x)), x));
      break;
    case LoweredOp::kTanhBackward:
      p.result(p.mul(g, p.sub(one, p.mul(x, x))));
      break;
    case LoweredOp::kThresholdBackward:
      p.result(p.select(p.bin(IrOp::kLe, x, p.own(0)), zero, g));
      break;
    case LoweredOp::kLeakyReluBackward:
      p.result(p.select(p.bin(IrOp::kGt, x, zero), g, p.mul(g, p.own(0))));
      break;
    case LoweredOp::kEluBackward:
    case LoweredOp::kEluBackwardResult: {
      const ValueId negative = p.mul(p.own(0), p.own(1));
      const ValueId slope = p.mul(g, p.own(2));
      const ValueId below = p.op() == LoweredOp::kEluBackwardResult
                                ? p.mul(slope, p.add(x, negative))
                                : p.mul(p.mul(slope, negative), p.exp(p.mul(x, p.own(2))));
      p.result(p.select(p.bin(IrOp::kLe, x, zero), below, p.mul(g, p.own(1))));
      break;
    }
    case LoweredOp::kGeluBackward: {
      const double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;  // 1 / sqrt(2 pi)
      const ValueId pdf = p.mul(p.exp(p.mul(p.mul(x, x), p.c(-0.5))), p.c(scale));
      p.result(p.mul(g, p.add(normal_cdf(p, x), p.mul(x, pdf))));
      break;
    }
    case LoweredOp::kGeluTanhBackward:
      p.result(p.mul(g, gelu_tanh_slope(p, x)));
      break;
    case LoweredOp::kSiluBackward: {
      const ValueId s = p.div(one, p.add(one, p.exp(p.un(IrOp::kNeg, x))));
      p.result(p.mul(p.mul(g, s), p.add(one, p.mul(x, p.sub(one, s)))));
      break;
    }
    case LoweredOp::kMishBackward: {
      const ValueId s = p.div(one, p.add(one, p.exp(p.un(IrOp::kNeg, x))));
      const ValueId t = p.un(IrOp::kTanh, p.un(IrOp::kLog1p, p.exp(x)));
      const ValueId slope = p.mul(p.mul(x, s), p.sub(one, p.mul(t, t)));
      p.result(p.mul(g, p.add(t, slope)));
      break;
    }
    case LoweredOp::kSoftplusBackward: {
      const ValueId scaled = p.mul(x, p.own(0));
      const ValueId z = p.exp(scaled);
      p.result(p.select(p.bin(IrOp::kGt, scaled, p.own(1)), g, p.div(p.mul(g, z), p.add(z, one))));
      break;
    }
    case LoweredOp::kHardtanhBackward: {
      const ValueId outside =
          p.bin(IrOp::kOr, p.bin(IrOp::kLe, x, p.own(0)), p.bin(IrOp::kGe, x, p.own(1)));
      p.result(p.select(outside, zero, g));
      break;
    }
    case LoweredOp::kHardsigmoidBackward: {
      const ValueId inside =
          p.bin(IrOp::kAnd, p.bin(IrOp::kGt, x, p.c(-3)), p.bin(IrOp::kLt, x, p.c(3)));
      p.result(p.select(inside, p.div(g, p.c(6)), zero));
      break;
    }
    case LoweredOp::kHardswishBackward: {
      const ValueId middle = p.mul(g, p.add(p.div(x, p.c(3)), p.c(0.5)));
      const ValueId low = p.select(p.bin(IrOp::kLe, x, p.c(-3)), zero, middle);
      p.result(p.select(p.bin(IrOp::kGe, x, p.c(3)), g, low));
      break;
    }
    case LoweredOp::kShrinkBackward:
      p.result(p.select(within(p, x, p.own(0)), zero, g));
      break;
    case LoweredOp::kLogSigmoidBackward: {
      const ValueId z = negative_exp_abs(p, x);
      const ValueId tail = p.div(z, p.add(one, z));
      const ValueId negative = p.bin(IrOp::kLt, x, zero);
      p.result(p.mul(g, p.select(negative, p.sub(one, tail), tail)));
      break;
    }
    case LoweredOp::kLogitBackward: {
      const ValueId outside = p.bin(IrOp::kOr, p.bin(IrOp::kLt, x, zero), p.bin(IrOp::kGt, x, one));
      const ValueId nan = p.c(std::numeric_limits<double>::quiet_NaN());
      p.result(p.select(outside, nan, p.div(g, p.mul(x, p.sub(one, x)))));
      break;
    }
    default:
      return false;
  }
  return true;
}

}  // namespace neuron
