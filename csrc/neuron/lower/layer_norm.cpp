// SPDX-License-Identifier: Apache-2.0
//
// Layer norm and its gradients, in f32 (f64 for f64 inputs) from the first read to the last
// rounding.
#include "neuron/lower/attributes.h"
#include "neuron/lower/lowering.h"

namespace neuron {
namespace {

constexpr size_t kPresentWord = 1;
constexpr size_t kEpsWord = 3;

class LayerNormLowering : public LoweringBase {
 public:
  LayerNormLowering(const OpRecord& record, const Canonical& canonical)
      : LoweringBase(record, canonical), compute_(opmath(record.inputs[0].dtype)) {}

  void forward() {
    const uint64_t present = attribute_word(record_.attributes, kPresentWord);
    const ValueId x = read(0);
    const ValueId mean = b_.binary(IrOp::kDiv, sum(x), row_count(compute_));
    const ValueId centred = b_.binary(IrOp::kSub, x, mean);
    const ValueId variance = b_.binary(IrOp::kDiv, sum(mul(centred, centred)), row_count(compute_));
    const ValueId spread = b_.binary(IrOp::kAdd, variance, scalar(kEpsWord, true, compute_));
    const ValueId rstd =
        b_.binary(IrOp::kDiv, b_.constant(compute_, 1), b_.unary(IrOp::kSqrt, spread));
    ValueId y = mul(centred, rstd);
    size_t next = 1;
    if ((present & 2) != 0) y = mul(y, read(next++));
    if ((present & 4) != 0) y = b_.binary(IrOp::kAdd, y, read(next++));
    store(0, y);
    store(1, mean);
    store(2, rstd);
  }

  void gradient_of_input(int output) {
    ValueId g = read(0);
    if (record_.inputs.size() > 4) g = mul(g, read(4));
    const ValueId normalised = normal();
    const ValueId along = mul(normalised, sum(mul(g, normalised)));
    const ValueId drift =
        b_.binary(IrOp::kDiv, b_.binary(IrOp::kAdd, sum(g), along), row_count(compute_));
    store(static_cast<size_t>(output), mul(read(3), b_.binary(IrOp::kSub, g, drift)));
  }

  void gradient_of_parameters(int weight, int bias) {
    if (weight >= 0) store(static_cast<size_t>(weight), sum(mul(read(0), normal())));
    if (bias >= 0) store(static_cast<size_t>(bias), sum(read(0)));
  }

 private:
  ValueId read(size_t i) { return b_.convert(compute_, load(i)); }
  ValueId mul(ValueId a, ValueId b) { return b_.binary(IrOp::kMul, a, b); }
  ValueId sum(ValueId v) { return b_.reduce(IrOp::kReduceSum, v); }
  ValueId normal() { return mul(b_.binary(IrOp::kSub, read(1), read(2)), read(3)); }

  const DType compute_;
};

}  // namespace

Lowered lower_layer_norm(const OpRecord& record, const Canonical& canonical) {
  LayerNormLowering lowering(record, canonical);
  lowering.forward();
  return lowering.finish();
}

Lowered lower_layer_norm_backward(const OpRecord& record, int part, const Canonical& canonical) {
  LayerNormLowering lowering(record, canonical);
  const NormWanted wanted = norm_wanted(record);
  if (part == 0 && wanted.input >= 0) {
    lowering.gradient_of_input(wanted.input);
  } else {
    lowering.gradient_of_parameters(wanted.weight, wanted.bias);
  }
  return lowering.finish();
}

}  // namespace neuron
