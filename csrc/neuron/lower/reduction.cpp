// SPDX-License-Identifier: Apache-2.0
//
// Reductions over dims, softmax and its gradients.
#include <limits>

#include "neuron/base/error.h"
#include "neuron/lower/attributes.h"
#include "neuron/lower/lowering.h"

namespace neuron {
namespace {

constexpr size_t kOwnWord = 3;

class ReductionLowering : public LoweringBase {
 public:
  ReductionLowering(const OpRecord& record, const Canonical& canonical)
      : LoweringBase(record, canonical),
        common_(static_cast<DType>(attribute_word(record.attributes, 0))),
        compute_(opmath(common_)) {}

  void run() {
    switch (static_cast<LoweredOp>(record_.op)) {
      case LoweredOp::kSum:
        return result(0, b_.reduce(IrOp::kReduceSum, x()));
      case LoweredOp::kMean:
        return result(0, mean(x()));
      case LoweredOp::kProd:
        return result(0, b_.reduce(IrOp::kReduceProd, x()));
      case LoweredOp::kAmax:
        return result(0, b_.reduce(IrOp::kReduceMax, rounded()));
      case LoweredOp::kAmin:
        return result(0, b_.reduce(IrOp::kReduceMin, rounded()));
      case LoweredOp::kAny:
        return store(0, b_.reduce(IrOp::kReduceOr, b_.convert(DType::kBool, rounded())));
      case LoweredOp::kAll:
        return store(0, b_.reduce(IrOp::kReduceAnd, b_.convert(DType::kBool, rounded())));
      case LoweredOp::kArgmax:
        return store(0, b_.reduce(IrOp::kArgMax, rounded()));
      case LoweredOp::kArgmin:
        return store(0, b_.reduce(IrOp::kArgMin, rounded()));
      case LoweredOp::kMaxDim:
        store(0, b_.reduce(IrOp::kReduceMax, rounded()));
        return store(1, b_.reduce(IrOp::kArgMax, rounded()));
      case LoweredOp::kMinDim:
        store(0, b_.reduce(IrOp::kReduceMin, rounded()));
        return store(1, b_.reduce(IrOp::kArgMin, rounded()));
      case LoweredOp::kVar:
        return result(0, variance());
      case LoweredOp::kStd:
        return result(0, b_.unary(IrOp::kSqrt, variance()));
      case LoweredOp::kVarMean:
        result(0, variance());
        return result(1, mean(x()));
      case LoweredOp::kNorm1:
        return result(0, b_.reduce(IrOp::kReduceSum, b_.unary(IrOp::kAbs, x())));
      case LoweredOp::kNorm2: {
        const ValueId squares = b_.binary(IrOp::kMul, x(), x());
        return result(0, b_.unary(IrOp::kSqrt, b_.reduce(IrOp::kReduceSum, squares)));
      }
      case LoweredOp::kNormInf:
        return result(0, b_.reduce(IrOp::kReduceMax, b_.unary(IrOp::kAbs, x())));
      case LoweredOp::kLogsumexp:
        return result(0, logsumexp());
      default:
        throw_internal(__FILE__, __LINE__, "not a reduction");
    }
  }

 private:
  ValueId rounded() { return b_.convert(common_, load(0)); }
  ValueId x() { return b_.convert(compute_, rounded()); }
  void result(size_t o, ValueId value) { store(o, b_.convert(common_, value)); }

  ValueId mean(ValueId v) {
    return b_.binary(IrOp::kDiv, b_.reduce(IrOp::kReduceSum, v), row_count(compute_));
  }

  ValueId variance() {
    const ValueId centred = b_.binary(IrOp::kSub, x(), mean(x()));
    const ValueId squares = b_.reduce(IrOp::kReduceSum, b_.binary(IrOp::kMul, centred, centred));
    const ValueId divisor =
        b_.binary(IrOp::kSub, row_count(compute_), scalar(kOwnWord, true, compute_));
    const ValueId positive = b_.binary(IrOp::kMax, divisor, b_.constant(compute_, 0));
    return b_.binary(IrOp::kDiv, squares, positive);
  }

  ValueId logsumexp() {
    const ValueId max = b_.reduce(IrOp::kReduceMax, x());
    const ValueId infinite =
        b_.binary(IrOp::kEq, b_.unary(IrOp::kAbs, max),
                  b_.constant(compute_, std::numeric_limits<double>::infinity()));
    const ValueId shift = b_.select(infinite, b_.constant(compute_, 0), max);
    const ValueId sum =
        b_.reduce(IrOp::kReduceSum, b_.unary(IrOp::kExp, b_.binary(IrOp::kSub, x(), shift)));
    return b_.binary(IrOp::kAdd, b_.unary(IrOp::kLog, sum), shift);
  }

  const DType common_;
  const DType compute_;
};

class SoftmaxLowering : public LoweringBase {
 public:
  SoftmaxLowering(const OpRecord& record, const Canonical& canonical)
      : LoweringBase(record, canonical),
        common_(static_cast<DType>(attribute_word(record.attributes, 0))),
        compute_(opmath(common_)) {}

  void run() {
    switch (static_cast<LoweredOp>(record_.op)) {
      case LoweredOp::kSoftmax: {
        const ValueId e = b_.unary(IrOp::kExp, shifted());
        return result(b_.binary(IrOp::kDiv, e, sum(e)));
      }
      case LoweredOp::kLogSoftmax: {
        const ValueId log_sum = b_.unary(IrOp::kLog, sum(b_.unary(IrOp::kExp, shifted())));
        return result(b_.binary(IrOp::kSub, shifted(), log_sum));
      }
      case LoweredOp::kSoftmaxBackward: {
        const ValueId grad = x(0), y = x(1);
        const ValueId weighted = sum(b_.binary(IrOp::kMul, grad, y));
        return result(b_.binary(IrOp::kMul, b_.binary(IrOp::kSub, grad, weighted), y));
      }
      case LoweredOp::kLogSoftmaxBackward: {
        const ValueId grad = x(0);
        const ValueId scaled = b_.binary(IrOp::kMul, b_.unary(IrOp::kExp, x(1)), sum(grad));
        return result(b_.binary(IrOp::kSub, grad, scaled));
      }
      default:
        throw_internal(__FILE__, __LINE__, "not a softmax");
    }
  }

 private:
  ValueId x(size_t i) { return b_.convert(compute_, b_.convert(common_, load(i))); }
  ValueId shifted() { return b_.binary(IrOp::kSub, x(0), b_.reduce(IrOp::kReduceMax, x(0))); }
  ValueId sum(ValueId v) { return b_.reduce(IrOp::kReduceSum, v); }
  void result(ValueId value) { store(0, b_.convert(common_, value)); }

  const DType common_;
  const DType compute_;
};

}  // namespace

Lowered lower_reduction(const OpRecord& record, const Canonical& canonical) {
  ReductionLowering lowering(record, canonical);
  lowering.run();
  return lowering.finish();
}

Lowered lower_softmax(const OpRecord& record, const Canonical& canonical) {
  SoftmaxLowering lowering(record, canonical);
  lowering.run();
  return lowering.finish();
}

}  // namespace neuron
