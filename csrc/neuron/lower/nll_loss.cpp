// SPDX-License-Identifier: Apache-2.0
#include "neuron/lower/indexing.h"

namespace neuron {
namespace {

enum Reduction : uint64_t { kNone = 0, kMean = 1, kSum = 2 };

// Operands of both directions.
class NllLowering : public IndexingLowering {
 public:
  NllLowering(const OpRecord& record, const Canonical& canonical)
      : IndexingLowering(record, canonical),
        compute_(opmath(record.outputs[0].dtype)),
        target_(b_.convert(DType::kInt64, load(1))),
        counts_(b_.binary(IrOp::kNe, target_, scalar(kIndexingWords, false, DType::kInt64))) {}

  size_t class_dim() const { return static_cast<size_t>(word(0)); }
  bool weighted() const { return word(1) != 0; }
  Reduction reduction() const { return static_cast<Reduction>(word(2)); }
  ValueId wide(ValueId v) { return b_.convert(compute_, v); }
  ValueId zero() { return b_.constant(compute_, 0); }
  ValueId target() const { return target_; }
  ValueId counts() const { return counts_; }  // the target is not ignored

  void forward() {
    const TensorRef& self = record_.inputs[0];
    const ValueId own = b_.select(counts_, target_, integer(0));
    const ValueId index = checked(own, size(self, class_dim()), false);
    const ValueId x = wide(b_.gather(input_number(0), times(index, stride(self, class_dim()))));
    ValueId weight = b_.constant(compute_, 1);
    ValueId loss = x;
    if (weighted()) {
      const ValueId at = times(index, stride(record_.inputs[2], 0));
      weight = wide(b_.gather(input_number(2), at));
      loss = b_.binary(IrOp::kMul, x, weight);
    }
    loss = b_.select(counts_, b_.unary(IrOp::kNeg, loss), zero());
    if (reduction() == kNone) return store(0, loss);
    const ValueId total = b_.reduce(IrOp::kReduceSum, b_.select(counts_, weight, zero()));
    loss = b_.reduce(IrOp::kReduceSum, loss);
    if (reduction() == kMean) loss = b_.binary(IrOp::kDiv, loss, total);
    store(0, loss);
    store(1, total);
  }

  void backward() {
    ValueId grad = b_.unary(IrOp::kNeg, wide(load(0)));
    if (weighted()) grad = b_.binary(IrOp::kMul, grad, wide(load(2)));
    if (reduction() == kMean) {
      grad = b_.binary(IrOp::kDiv, grad, wide(load(record_.inputs.size() - 1)));
    }
    const ValueId here = b_.binary(IrOp::kEq, position(class_dim()), target_);
    store(0, b_.select(both(here, counts_), grad, zero()));
  }

 private:
  DType compute_;
  ValueId target_, counts_;
};

}  // namespace

Lowered lower_nll_loss(const OpRecord& record, const Canonical& canonical) {
  NllLowering l(record, canonical);
  l.forward();
  return l.finish();
}

Lowered lower_nll_loss_backward(const OpRecord& record, const Canonical& canonical) {
  NllLowering l(record, canonical);
  l.backward();
  return l.finish();
}

}  // namespace neuron
