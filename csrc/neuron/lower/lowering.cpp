// SPDX-License-Identifier: Apache-2.0
#include "neuron/lower/lowering.h"

#include <bit>

#include "neuron/base/error.h"
#include "neuron/lower/attributes.h"

namespace neuron {

LoweringBase::LoweringBase(const OpRecord& record, const Canonical& canonical)
    : record_(record), canonical_(canonical), b_(canonical.parallel_rank, canonical.row_rank) {
  for (const CanonicalOperand& o : canonical.used()) {
    if (o.output) {
      outputs_.push_back(kNoValue);
    } else {
      b_.add_input(o.ref->dtype, axes_of(o));
    }
  }
}

AxisMask LoweringBase::axes_of(const CanonicalOperand& operand) const {
  unsigned mask = 0;
  for (int d = 0; d < canonical_.rank(); ++d) {
    if (operand.strides[static_cast<size_t>(d)] != 0) mask |= 1u << d;
  }
  return static_cast<AxisMask>(mask);
}

ValueId LoweringBase::load(size_t i) {
  int number = 0;
  for (const CanonicalOperand& o : canonical_.used()) {
    if (o.output) continue;
    if (o.index == i) return b_.input(number);
    ++number;
  }
  throw_internal(__FILE__, __LINE__, "an input that the part does not read");
}

ValueId LoweringBase::scalar(size_t word, bool floating, DType dtype) {
  // Narrow types have no scalars of their own: the value arrives wide and is converted.
  const DType wide = !floating                  ? DType::kInt64
                     : dtype == DType::kFloat64 ? DType::kFloat64
                                                : DType::kFloat32;
  const ScalarSource source{static_cast<uint8_t>(word), floating, wide};
  size_t number = 0;
  while (number < scalars_.size() && scalars_[number].word != source.word) ++number;
  if (number == scalars_.size()) {
    scalars_.push_back(source);
    b_.add_scalar(wide);
  }
  return b_.convert(dtype, b_.scalar(static_cast<int>(number)));
}

void LoweringBase::store(size_t o, ValueId value) {
  size_t number = 0;
  for (const CanonicalOperand& operand : canonical_.used()) {
    if (!operand.output) continue;
    if (operand.index == o) {
      outputs_[number] = b_.convert(operand.ref->dtype, value);
      return;
    }
    ++number;
  }
  throw_internal(__FILE__, __LINE__, "an output that the part does not write");
}

ValueId LoweringBase::row_count(DType dtype) {
  ValueId count = b_.extent(canonical_.parallel_rank);
  for (int d = canonical_.parallel_rank + 1; d < canonical_.rank(); ++d) {
    count = b_.binary(IrOp::kMul, count, b_.extent(d));
  }
  return b_.convert(dtype, count);
}

Lowered LoweringBase::finish() {
  size_t number = 0;
  for (const CanonicalOperand& operand : canonical_.used()) {
    if (!operand.output) continue;
    NEURON_CHECK(outputs_[number] != kNoValue);
    // A value that varies less than its output (a fill) is repeated. Dims of stride 0 in an output
    // do not exist: outputs never overlap themselves.
    b_.output(outputs_[number], axes_of(operand));
    ++number;
  }
  return {b_.finish(), std::move(scalars_)};
}

Lowered lower(const OpRecord& record, int part, const Canonical& canonical) {
  switch (op_info(record.op).family) {
    case OpFamily::kPointwise:
      return lower_pointwise(record, canonical);
    case OpFamily::kReduction:
      return lower_reduction(record, canonical);
    case OpFamily::kSoftmax:
      return lower_softmax(record, canonical);
    case OpFamily::kLayerNorm:
      return lower_layer_norm(record, canonical);
    case OpFamily::kLayerNormBackward:
      return lower_layer_norm_backward(record, part, canonical);
  }
  throw_internal(__FILE__, __LINE__, "unknown family");
}

uint64_t scalar_bits(const ScalarSource& source, const OpRecord& record) {
  const uint64_t word = attribute_word(record.attributes, source.word);
  if (source.dtype != DType::kFloat32) return word;
  return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(word)));
}

}  // namespace neuron
