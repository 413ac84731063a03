// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes at positions that index tensors give.
#include <limits>

#include "neuron/base/error.h"
#include "neuron/lower/attributes.h"
#include "neuron/lower/canonical_space.h"
#include "neuron/lower/indexing.h"

namespace neuron {

ValueId IndexingLowering::checked(ValueId index, ValueId size, bool wraps) {
  return b_.binary(wraps ? IrOp::kWrapIndex : IrOp::kCheckIndex, b_.convert(DType::kInt64, index),
                   size);
}

ValueId IndexingLowering::sum(ValueId a, ValueId b) {
  return a == kNoValue ? b : b == kNoValue ? a : b_.binary(IrOp::kAdd, a, b);
}

ValueId IndexingLowering::both(ValueId a, ValueId b) {
  return a == kNoValue ? b : b == kNoValue ? a : b_.binary(IrOp::kAnd, a, b);
}

ValueId IndexingLowering::inside(ValueId at, ValueId low, ValueId count) {
  const ValueId high = b_.binary(IrOp::kAdd, low, count);
  return both(b_.binary(IrOp::kGe, at, low), b_.binary(IrOp::kLt, at, high));
}

ValueId IndexingLowering::offset_of(const TensorRef& indexed, ValueId* in_range) {
  const LoweredOp op = static_cast<LoweredOp>(record_.op);
  const bool wraps = op == LoweredOp::kIndex || op == LoweredOp::kIndexPut ||
                     op == LoweredOp::kIndexPutAdd || op == LoweredOp::kIndexFill;
  ValueId offset = kNoValue;
  size_t next = 1;
  for (size_t d = 0; d < indexed.rank; ++d) {
    if ((word(2) >> d & 1) == 0) continue;
    ValueId at = b_.convert(DType::kInt64, load(next++));
    if (in_range == nullptr) {
      at = checked(at, size(indexed, d), wraps);
    } else {
      *in_range = both(*in_range, inside(at, integer(0), size(indexed, d)));
    }
    offset = sum(offset, times(at, stride(indexed, d)));
  }
  NEURON_CHECK(offset != kNoValue);
  return offset;
}

ValueId IndexingLowering::position(size_t dim) {
  for (int d = 0; d < canonical_.rank(); ++d) {
    if (canonical_.origin[static_cast<size_t>(d)] == dim) return b_.index(d);
  }
  return integer(0);  // a dim of size 1
}

ValueId IndexingLowering::value_word(size_t i, DType dtype) {
  return scalar(kIndexingWords + i, is_floating(dtype), opmath(dtype));
}

Lowered lower_index_read(const OpRecord& record, const Canonical& canonical) {
  IndexingLowering l(record, canonical);
  l.store(0, l.b().gather(l.input_number(0), l.offset_of(record.inputs[0])));
  return l.finish();
}

namespace {

Combine combine_of(LoweredOp op) {
  switch (op) {
    case LoweredOp::kIndexPutAdd:
    case LoweredOp::kIndexAdd:
    case LoweredOp::kEmbeddingBackward:
    case LoweredOp::kScatterAdd:
    case LoweredOp::kScatterAddOnly:
      return Combine::kAdd;
    case LoweredOp::kScatterMul:
    case LoweredOp::kScatterMulOnly:
      return Combine::kMul;
    case LoweredOp::kScatterMax:
    case LoweredOp::kScatterMaxOnly:
      return Combine::kMax;
    case LoweredOp::kScatterMin:
    case LoweredOp::kScatterMinOnly:
      return Combine::kMin;
    default:
      return Combine::kStore;
  }
}

// What combining with leaves a value as it is.
ValueId neutral(GraphBuilder& b, Combine combine, DType dtype) {
  if (combine == Combine::kAdd) return b.constant(dtype, 0);
  if (combine == Combine::kMul) return b.constant(dtype, 1);
  const bool largest = combine == Combine::kMin;
  if (is_floating(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return b.constant(dtype, largest ? infinity : -infinity);
  }
  if (dtype == DType::kBool) return b.constant_int(dtype, largest);
  const bool is_signed = dtype != DType::kUInt8;
  const auto bits = static_cast<int>(8 * element_size(dtype)) - (is_signed ? 1 : 0);
  const auto top = static_cast<int64_t>((uint64_t{1} << bits) - 1);
  return b.constant_int(dtype, largest ? top : is_signed ? -top - 1 : 0);
}

}  // namespace

Lowered lower_index_write(const OpRecord& record, int part, const Canonical& canonical) {
  IndexingLowering l(record, canonical);
  const LoweredOp op = static_cast<LoweredOp>(record.op);
  const DType dtype = record.outputs[0].dtype;
  const bool embedding = op == LoweredOp::kEmbeddingBackward;
  switch (index_write_parts(record).kinds[static_cast<size_t>(part)]) {
    case IndexWriteParts::kBase:
      l.store(0, embedding ? l.b().constant(dtype, 0) : l.load(0));
      return l.finish();
    case IndexWriteParts::kReset: {
      // The write after it reports indices out of range, once.
      ValueId in_range = kNoValue;
      const ValueId offset = l.offset_of(record.outputs[0], &in_range);
      l.scatter(0, Combine::kStore, neutral(l.b(), combine_of(op), dtype), offset, in_range);
      return l.finish();
    }
    case IndexWriteParts::kWrite:
      break;
  }
  ValueId mask = kNoValue;
  if (embedding) {
    const ValueId index = l.b().convert(DType::kInt64, l.load(1));
    mask = l.b().binary(IrOp::kNe, index, l.scalar(kIndexingWords, false, DType::kInt64));
  }
  const ValueId offset = l.offset_of(record.outputs[0]);
  const auto indices = static_cast<size_t>(__builtin_popcountll(l.word(2)));
  const bool host_scalar = l.word(3) != 0;
  const ValueId value = host_scalar ? l.value_word(0, dtype) : l.load(embedding ? 0 : 1 + indices);
  l.scatter(0, combine_of(op), value, offset, mask);
  return l.finish();
}

}  // namespace neuron
