// SPDX-License-Identifier: Apache-2.0
//
// Scans along one dim.
#include "neuron/base/error.h"
#include "neuron/lower/attributes.h"
#include "neuron/lower/lowering.h"

namespace neuron {
namespace {

class ScanLowering : public LoweringBase {
 public:
  ScanLowering(const OpRecord& record, const Canonical& canonical)
      : LoweringBase(record, canonical),
        common_(static_cast<DType>(attribute_word(record.attributes, 0))) {}

  void run() {
    switch (static_cast<LoweredOp>(record_.op)) {
      case LoweredOp::kCumsum:
        return accumulate(IrOp::kScanSum);
      case LoweredOp::kCumprod:
        return accumulate(IrOp::kScanProd);
      case LoweredOp::kCummax:
        return extreme(IrOp::kScanMax);
      case LoweredOp::kCummin:
        return extreme(IrOp::kScanMin);
      default:
        throw_internal(__FILE__, __LINE__, "not a scan");
    }
  }

 private:
  ValueId x() { return b_.convert(common_, load(0)); }
  // A dim of size 1, along which nothing varies.
  bool trivial() const {
    const auto& result = canonical_.operands[canonical_.operand_count - 1];
    return result.strides[canonical_.parallel_rank] == 0;
  }

  void accumulate(IrOp op) {
    if (trivial()) return store(0, x());
    const DType type = common_ == DType::kFloat32 ? DType::kFloat64 : opmath(common_);
    store(0, b_.convert(common_, b_.scan(op, b_.convert(type, x()))));
  }

  void extreme(IrOp op) {
    if (trivial()) {
      store(0, x());
      return store(1, b_.constant_int(DType::kInt64, 0));
    }
    const ValueId best = b_.scan(op, x());
    // The last element that equals the extreme so far, or the last NaN.
    ValueId taken = b_.binary(IrOp::kEq, x(), best);
    if (is_floating(common_)) {
      taken = b_.binary(IrOp::kOr, taken, b_.binary(IrOp::kNe, x(), x()));
    }
    const ValueId place = b_.index(canonical_.parallel_rank);
    const ValueId before = b_.constant_int(DType::kInt64, -1);
    store(0, best);
    store(1, b_.scan(IrOp::kScanMax, b_.select(taken, place, before)));
  }

  const DType common_;
};

}  // namespace

Lowered lower_scan(const OpRecord& record, const Canonical& canonical) {
  ScanLowering lowering(record, canonical);
  lowering.run();
  return lowering.finish();
}

}  // namespace neuron
