// SPDX-License-Identifier: Apache-2.0
//
// Losses, their reduction in the same kernel, and their gradients. The formulas are those of ATen's
// kernels.
#include "neuron/base/error.h"
#include "neuron/lower/attributes.h"
#include "neuron/lower/pointwise.h"

namespace neuron {
namespace {

enum Reduction : uint64_t { kNone, kMean, kSum };

class LossLowering : public LoweringBase {
 public:
  LossLowering(const OpRecord& record, const Canonical& canonical)
      : LoweringBase(record, canonical),
        common_(static_cast<DType>(attribute_word(record.attributes, 0))),
        compute_(opmath(common_)) {}

  void run() {
    ValueId v = element();
    const uint64_t reduction = attribute_word(record_.attributes, 2);
    if (reduction != kNone) v = b_.reduce(IrOp::kReduceSum, v);
    if (reduction == kMean) v = b_.binary(IrOp::kDiv, v, row_count(compute_));
    store(0, b_.convert(common_, v));
  }

 private:
  ValueId x(size_t i) { return b_.convert(compute_, b_.convert(common_, load(i))); }
  ValueId own() { return scalar(3, true, compute_); }
  ValueId c(double v) { return b_.constant(compute_, v); }
  ValueId sub(ValueId a, ValueId b) { return b_.binary(IrOp::kSub, a, b); }
  ValueId mul(ValueId a, ValueId b) { return b_.binary(IrOp::kMul, a, b); }

  ValueId element() {
    switch (static_cast<LoweredOp>(record_.op)) {
      case LoweredOp::kMseLoss: {
        const ValueId z = sub(x(0), x(1));
        return mul(z, z);
      }
      case LoweredOp::kSmoothL1Loss: {
        const ValueId z = b_.unary(IrOp::kAbs, sub(x(0), x(1)));
        const ValueId near = b_.binary(IrOp::kDiv, mul(mul(c(0.5), z), z), own());
        return b_.select(b_.binary(IrOp::kLt, z, own()), near, sub(z, mul(c(0.5), own())));
      }
      case LoweredOp::kHuberLoss: {
        const ValueId z = b_.unary(IrOp::kAbs, sub(x(0), x(1)));
        const ValueId far = mul(own(), sub(z, mul(c(0.5), own())));
        return b_.select(b_.binary(IrOp::kLe, z, own()), mul(mul(c(0.5), z), z), far);
      }
      case LoweredOp::kBinaryCrossEntropy: {
        const ValueId p = x(0), target = x(1), floor = c(-100);
        const ValueId miss =
            b_.binary(IrOp::kMax, b_.unary(IrOp::kLog1p, b_.unary(IrOp::kNeg, p)), floor);
        const ValueId hit = b_.binary(IrOp::kMax, b_.unary(IrOp::kLog, p), floor);
        const ValueId loss = sub(mul(sub(target, c(1)), miss), mul(target, hit));
        const bool weighted = (attribute_word(record_.attributes, 1) & 4) != 0;
        return weighted ? mul(loss, x(2)) : loss;
      }
      default:
        throw_internal(__FILE__, __LINE__, "not a loss");
    }
  }

  const DType common_;
  const DType compute_;
};

// `inside` between -bound and bound, else -outside or outside.
ValueId clipped(PointwiseLowering& p, ValueId x, ValueId bound, ValueId inside, ValueId outside) {
  const ValueId above = p.select(p.bin(IrOp::kGe, x, bound), outside, inside);
  const ValueId below = p.bin(IrOp::kLe, x, p.un(IrOp::kNeg, bound));
  return p.select(below, p.un(IrOp::kNeg, outside), above);
}

}  // namespace

Lowered lower_loss(const OpRecord& record, const Canonical& canonical) {
  LossLowering lowering(record, canonical);
  lowering.run();
  return lowering.finish();
}

bool lower_loss_gradients(PointwiseLowering& p) {
  switch (p.op()) {
    case LoweredOp::kSmoothL1LossBackward: {
      const ValueId x = p.sub(p.x(1), p.x(2)), norm = p.own(0), beta = p.own(1);
      const ValueId inside = p.div(p.mul(p.mul(norm, x), p.x(0)), beta);
      p.result(clipped(p, x, beta, inside, p.mul(norm, p.x(0))));
      break;
    }
    case LoweredOp::kHuberLossBackward: {
      const ValueId x = p.sub(p.x(1), p.x(2)), norm = p.own(0), delta = p.own(1);
      const ValueId outside = p.mul(p.mul(norm, p.x(0)), delta);
      p.result(clipped(p, x, delta, p.mul(p.mul(norm, x), p.x(0)), outside));
      break;
    }
    case LoweredOp::kBinaryCrossEntropyBackward:
    case LoweredOp::kBinaryCrossEntropyWeightedBackward: {
      const ValueId x = p.x(1);
      const ValueId spread = p.bin(IrOp::kMax, p.mul(p.sub(p.c(1), x), x), p.c(1e-12));
      ValueId g = p.div(p.mul(p.x(0), p.sub(x, p.x(2))), spread);
      if (p.op() == LoweredOp::kBinaryCrossEntropyWeightedBackward) g = p.mul(g, p.x(3));
      p.result(p.mul(g, p.own(0)));
      break;
    }
    default:
      return false;
  }
  return true;
}

}  // namespace neuron
