// SPDX-License-Identifier: Apache-2.0
//
// Pads and concatenation: every element of the result says where it comes from.
#include <vector>

#include "neuron/lower/indexing.h"

namespace neuron {
namespace {

void pad(IndexingLowering& l, const TensorRef& self) {
  ValueId mask = kNoValue, before = kNoValue;
  size_t next = 1;
  for (size_t d = 0; d < self.rank; ++d) {
    if ((l.word(1) >> d & 1) == 0) continue;
    const ValueId low = l.scalar(kIndexingWords + next++, false, DType::kInt64);
    mask = l.both(mask, l.inside(l.position(d), low, l.size(self, d)));
    before = l.sum(before, l.times(low, l.stride(self, d)));
  }
  if (mask == kNoValue) return l.store(0, l.load(0));
  // The same walk as the result's, moved back.
  const ValueId offset = l.b().binary(IrOp::kSub, l.integer(0), before);
  const ValueId fill = l.b().convert(self.dtype, l.value_word(0, self.dtype));
  l.store(0, l.b().select(mask, l.b().gather(l.input_number(0), offset, mask), fill));
}

void mirrored_pad(IndexingLowering& l, const TensorRef& self, bool reflects) {
  ValueId offset = kNoValue;
  size_t next = 0;
  GraphBuilder& b = l.b();
  for (size_t d = 0; d < self.rank; ++d) {
    if ((l.word(1) >> d & 1) == 0) continue;
    const ValueId low = l.scalar(kIndexingWords + next++, false, DType::kInt64);
    const ValueId last = b.binary(IrOp::kSub, l.size(self, d), l.integer(1));
    ValueId at = b.binary(IrOp::kSub, l.position(d), low);
    if (reflects) {
      at = b.unary(IrOp::kAbs, at);
      at = b.binary(IrOp::kSub, last, b.unary(IrOp::kAbs, b.binary(IrOp::kSub, last, at)));
    }
    // A reflection of more than the size is refused at the call; nothing is read outside.
    at = b.binary(IrOp::kMin, b.binary(IrOp::kMax, at, l.integer(0)), last);
    offset = l.sum(offset, l.times(at, l.stride(self, d)));
  }
  l.store(0, offset == kNoValue ? l.load(0) : b.gather(l.input_number(0), offset));
}

void cat(IndexingLowering& l, const OpRecord& record) {
  GraphBuilder& b = l.b();
  const auto dim = static_cast<size_t>(l.word(0));
  const size_t count = record.inputs.size();
  const ValueId at = l.position(dim);
  ValueId start = l.integer(0), before = kNoValue;  // `at` lies before `start`
  std::vector<ValueId> parts, in_part;
  for (size_t i = 0; i < count; ++i) {
    const TensorRef& input = record.inputs[i];
    const ValueId end = b.binary(IrOp::kAdd, start, l.size(input, dim));
    const ValueId ends = i + 1 < count ? b.binary(IrOp::kLt, at, end) : kNoValue;
    const ValueId starts = before == kNoValue ? kNoValue : b.unary(IrOp::kNot, before);
    const ValueId offset = b.binary(IrOp::kSub, l.integer(0), l.times(start, l.stride(input, dim)));
    const ValueId part = b.gather(l.input_number(i), offset, l.both(starts, ends));
    parts.push_back(b.convert(record.outputs[0].dtype, part));
    in_part.push_back(ends);
    start = end;
    before = ends;
  }
  ValueId result = parts.back();
  for (size_t i = count - 1; i-- > 0;) result = b.select(in_part[i], parts[i], result);
  l.store(0, result);
}

}  // namespace

Lowered lower_window_read(const OpRecord& record, const Canonical& canonical) {
  IndexingLowering l(record, canonical);
  switch (static_cast<LoweredOp>(record.op)) {
    case LoweredOp::kPad:
      pad(l, record.inputs[0]);
      break;
    case LoweredOp::kCat:
      cat(l, record);
      break;
    default:
      mirrored_pad(l, record.inputs[0],
                   static_cast<LoweredOp>(record.op) == LoweredOp::kReflectionPad);
  }
  return l.finish();
}

}  // namespace neuron
