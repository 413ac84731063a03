// SPDX-License-Identifier: Apache-2.0
//
// Functions of one argument.
#include <limits>
#include <numbers>

#include "neuron/lower/pointwise.h"

namespace neuron {
namespace {

// The operation that is the function, or kInput for functions that are made of several.
IrOp single(LoweredOp op) {
  switch (op) {
#define NEURON_SAME(f)  \
  case LoweredOp::k##f: \
    return IrOp::k##f;
    NEURON_SAME(Neg)
    NEURON_SAME(Abs)
    NEURON_SAME(Sign)
    NEURON_SAME(Floor)
    NEURON_SAME(Ceil)
    NEURON_SAME(Round)
    NEURON_SAME(Trunc)
    NEURON_SAME(Sqrt)
    NEURON_SAME(Rsqrt)
    NEURON_SAME(Reciprocal)
    NEURON_SAME(Exp)
    NEURON_SAME(Exp2)
    NEURON_SAME(Expm1)
    NEURON_SAME(Log)
    NEURON_SAME(Log2)
    NEURON_SAME(Log10)
    NEURON_SAME(Log1p)
    NEURON_SAME(Tanh)
    NEURON_SAME(Sinh)
    NEURON_SAME(Cosh)
    NEURON_SAME(Sin)
    NEURON_SAME(Cos)
    NEURON_SAME(Tan)
    NEURON_SAME(Asin)
    NEURON_SAME(Acos)
    NEURON_SAME(Atan)
    NEURON_SAME(Asinh)
    NEURON_SAME(Acosh)
    NEURON_SAME(Atanh)
    NEURON_SAME(Erf)
    NEURON_SAME(Erfc)
    NEURON_SAME(Erfinv)
    NEURON_SAME(Sigmoid)
    NEURON_SAME(Lgamma)
    NEURON_SAME(Digamma)
#undef NEURON_SAME
    default:
      return IrOp::kInput;
  }
}

bool keeps_integers(LoweredOp op) {
  return op == LoweredOp::kFloor || op == LoweredOp::kCeil || op == LoweredOp::kRound ||
         op == LoweredOp::kTrunc;
}

}  // namespace

bool lower_functions(PointwiseLowering& p) {
  const LoweredOp op = p.op();
  if (const IrOp direct = single(op); direct != IrOp::kInput) {
    // Rounding an integer, or the magnitude and sign of a truth value, change nothing.
    const bool unchanged = (keeps_integers(op) && !p.floating()) || p.common() == DType::kBool;
    p.result(unchanged ? p.x(0) : p.un(direct, p.x(0)));
    return true;
  }
  switch (op) {
    case LoweredOp::kFrac:
      p.result(p.sub(p.x(0), p.un(IrOp::kTrunc, p.x(0))));
      break;
    case LoweredOp::kSinc: {
      const ValueId angle = p.mul(p.c(std::numbers::pi), p.x(0));
      p.result(p.select(p.bin(IrOp::kEq, p.x(0), p.c(0)), p.c(1),
                        p.div(p.un(IrOp::kSin, angle), angle)));
      break;
    }
    case LoweredOp::kLogit:
      p.result(p.un(IrOp::kLog, p.div(p.x(0), p.sub(p.c(1), p.x(0)))));
      break;
    case LoweredOp::kLogitClamped: {
      const ValueId low = p.own(0), high = p.sub(p.c(1), p.own(0));
      const ValueId x = p.x(0);
      const ValueId z =
          p.select(p.bin(IrOp::kLt, x, low), low, p.select(p.bin(IrOp::kGt, x, high), high, x));
      p.result(p.un(IrOp::kLog, p.div(z, p.sub(p.c(1), z))));
      break;
    }
    case LoweredOp::kNanToNum: {
      const ValueId x = p.x(0);
      if (!p.floating()) {
        p.result(x);
        break;
      }
      const double infinity = std::numeric_limits<double>::infinity();
      const ValueId finite = p.select(p.bin(IrOp::kEq, x, p.c(infinity)), p.own(1),
                                      p.select(p.bin(IrOp::kEq, x, p.c(-infinity)), p.own(2), x));
      p.result(p.select(p.bin(IrOp::kNe, x, x), p.own(0), finite));
      break;
    }
    default:
      return false;
  }
  return true;
}

}  // namespace neuron
