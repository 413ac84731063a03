// SPDX-License-Identifier: Apache-2.0
//
// Group, RMS and weight norms. Their gradients of the input run over the rows of the forward
// operation, those of the parameters over the other dims.
#include "neuron/lower/norm_lowering.h"

namespace neuron {
namespace {

class GroupNormLowering : public NormLowering {
 public:
  using NormLowering::NormLowering;

  void forward() {
    const ValueId mean = this->mean(x(0));
    const ValueId centred = sub(x(0), mean);
    const ValueId rstd = inverse_spread(this->mean(mul(centred, centred)), 0);
    ValueId y = mul(centred, rstd);
    if (present(1)) y = mul(y, x(1));
    if (present(2)) y = add(y, x(2));
    store(0, y);
    store(1, mean);
    store(2, rstd);
  }

  void backward(int part) {
    const NormWanted wanted = norm_wanted(record_);
    if (part == 0 && wanted.input >= 0) {
      const ValueId grad = present(4) ? mul(x(0), x(4)) : x(0);
      const ValueId along = mul(normal(), sum(mul(grad, normal())));
      const ValueId drift = div(add(sum(grad), along), rows());
      return store_wanted(wanted.input, mul(x(3), sub(grad, drift)));
    }
    if (wanted.weight >= 0) store_wanted(wanted.weight, sum(mul(x(0), normal())));
    if (wanted.bias >= 0) store_wanted(wanted.bias, sum(x(0)));
  }

 private:
  ValueId normal() { return mul(sub(x(1), x(2)), x(3)); }
};

class RmsNormLowering : public NormLowering {
 public:
  using NormLowering::NormLowering;

  void forward() {
    const ValueId rstd = inverse_spread(mean(mul(x(0), x(0))), 0);
    const ValueId y = mul(x(0), rstd);
    store(0, present(1) ? mul(y, x(1)) : y);
    store(1, rstd);
  }

  void backward(int part) {
    const NormWanted wanted = norm_wanted(record_);
    const ValueId normal = mul(x(1), x(2));
    if (part == 0 && wanted.input >= 0) {
      const ValueId grad = present(3) ? mul(x(0), x(3)) : x(0);
      const ValueId along = mul(normal, mean(mul(grad, normal)));
      return store_wanted(wanted.input, mul(x(2), sub(grad, along)));
    }
    store_wanted(wanted.weight, sum(mul(x(0), normal)));
  }
};

class WeightNormLowering : public NormLowering {
 public:
  using NormLowering::NormLowering;

  void forward() {
    const ValueId norm = sqrt(sum(mul(x(0), x(0))));
    store(0, mul(x(0), div(x(1), norm)));
    store(1, norm);
  }

  void backward() {
    const ValueId grad = x(0), v = x(1), g = x(2), norm = x(3);
    const ValueId along = sum(mul(grad, v));
    const ValueId slope = div(along, mul(norm, norm));
    store(0, mul(div(g, norm), sub(grad, mul(v, slope))));
    store(1, div(along, norm));
  }
};

}  // namespace

Lowered lower_group_norm(const OpRecord& record, const Canonical& canonical) {
  GroupNormLowering lowering(record, canonical);
  lowering.forward();
  return lowering.finish();
}

Lowered lower_group_norm_backward(const OpRecord& record, int part, const Canonical& canonical) {
  GroupNormLowering lowering(record, canonical);
  lowering.backward(part);
  return lowering.finish();
}

Lowered lower_rms_norm(const OpRecord& record, const Canonical& canonical) {
  RmsNormLowering lowering(record, canonical);
  lowering.forward();
  return lowering.finish();
}

Lowered lower_rms_norm_backward(const OpRecord& record, int part, const Canonical& canonical) {
  RmsNormLowering lowering(record, canonical);
  lowering.backward(part);
  return lowering.finish();
}

Lowered lower_weight_norm(const OpRecord& record, const Canonical& canonical) {
  WeightNormLowering lowering(record, canonical);
  if (static_cast<LoweredOp>(record.op) == LoweredOp::kWeightNorm) {
    lowering.forward();
  } else {
    lowering.backward();
  }
  return lowering.finish();
}

}  // namespace neuron
