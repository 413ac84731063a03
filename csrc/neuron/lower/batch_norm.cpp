// SPDX-License-Identifier: Apache-2.0
//
// Batch norm: rows are all elements of a channel.
#include "neuron/lower/norm_lowering.h"

namespace neuron {
namespace {

class BatchNormLowering : public NormLowering {
 public:
  using NormLowering::NormLowering;

  void training() {
    enum : size_t { kMomentum, kEps };
    const ValueId mean = this->mean(x(0));
    const ValueId centred = sub(x(0), mean);
    const ValueId squares = sum(mul(centred, centred));
    const ValueId invstd = inverse_spread(div(squares, rows()), kEps);
    store(0, result(centred, invstd));
    store(1, mean);
    store(2, invstd);
    if (!present(3)) return;
    const ValueId one = b_.constant(DType::kFloat64, 1);
    const ValueId momentum = value(kMomentum, DType::kFloat64);
    const ValueId taken = b_.convert(compute_, momentum);
    const ValueId kept = b_.convert(compute_, sub(one, momentum));
    const ValueId unbiased = div(squares, sub(rows(), c(1)));
    store(3, add(mul(taken, mean), mul(kept, x(3))));
    store(4, add(mul(taken, unbiased), mul(kept, x(4))));
  }

  void inference() { store(0, result(sub(x(0), x(3)), inverse_spread(x(4), 0))); }

  void training_backward() {
    const NormWanted wanted = norm_wanted(record_);
    const ValueId grad = x(0), invstd = x(4);
    const ValueId centred = sub(x(1), x(3));
    const ValueId total = sum(grad), along = sum(mul(grad, centred));
    if (wanted.input >= 0) {
      const ValueId slope = div(mul(along, mul(invstd, invstd)), rows());
      const ValueId rest = sub(sub(grad, div(total, rows())), mul(centred, slope));
      store_wanted(wanted.input, mul(rest, scale(invstd, 2)));
    }
    store_wanted(wanted.weight, mul(along, invstd));
    store_wanted(wanted.bias, total);
  }

  void inference_backward(int part) {
    const NormWanted wanted = norm_wanted(record_);
    if (part == 0 && wanted.input >= 0) {
      return store_wanted(wanted.input, mul(x(0), scale(inverse_spread(x(4), 0), 2)));
    }
    if (wanted.weight >= 0) {
      const ValueId along = sum(mul(x(0), sub(x(1), x(3))));
      store_wanted(wanted.weight, mul(along, inverse_spread(x(4), 0)));
    }
    if (wanted.bias >= 0) store_wanted(wanted.bias, sum(x(0)));
  }

 private:
  ValueId scale(ValueId invstd, size_t weight) {
    return present(weight) ? mul(invstd, x(weight)) : invstd;
  }
  ValueId result(ValueId centred, ValueId invstd) {
    const ValueId y = mul(centred, scale(invstd, 1));
    return present(2) ? add(y, x(2)) : y;
  }
};

}  // namespace

Lowered lower_batch_norm(const OpRecord& record, int part, const Canonical& canonical) {
  BatchNormLowering lowering(record, canonical);
  switch (op_info(record.op).family) {
    case OpFamily::kBatchNorm:
      lowering.training();
      break;
    case OpFamily::kBatchNormInference:
      lowering.inference();
      break;
    case OpFamily::kBatchNormBackward:
      lowering.training_backward();
      break;
    default:
      lowering.inference_backward(part);
  }
  return lowering.finish();
}

}  // namespace neuron
