// SPDX-License-Identifier: Apache-2.0
#include "neuron/lower/lowering.h"

#include <algorithm>
#include <bit>

#include "neuron/base/error.h"
#include "neuron/lower/attributes.h"

namespace neuron {

LoweringBase::LoweringBase(const OpRecord& record, const Canonical& canonical)
    : record_(record), canonical_(canonical), b_(canonical.parallel_rank, canonical.row_rank) {
  for (const CanonicalOperand& o : canonical.used()) {
    if (o.output) {
      outputs_.push_back({kNoValue, axes_of(o)});
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

ValueId LoweringBase::load(size_t i) { return b_.input(input_number(i)); }

int LoweringBase::input_number(size_t i) {
  int number = 0;
  for (const CanonicalOperand& o : canonical_.used()) {
    if (o.output) continue;
    if (o.index == i) return number;
    ++number;
  }
  throw_internal(__FILE__, __LINE__, "an input that the part does not read");
}

ValueId LoweringBase::scalar(size_t word, bool floating, DType dtype) {
  // Narrow types have no scalars of their own: the value arrives wide and is converted.
  const DType wide = !floating                  ? DType::kInt64
                     : dtype == DType::kFloat64 ? DType::kFloat64
                                                : DType::kFloat32;
  return b_.convert(dtype, add_scalar({static_cast<uint8_t>(word), floating, wide}));
}

ValueId LoweringBase::geometry(ScalarSource::Kind kind, const TensorRef& ref, size_t dim) {
  ScalarSource source{
      .word = static_cast<uint8_t>(dim), .floating = false, .dtype = DType::kInt64, .kind = kind};
  for (const auto refs : {record_.inputs, record_.outputs}) {
    if (&ref < refs.data() || &ref >= refs.data() + refs.size()) continue;
    source.output = refs.data() == record_.outputs.data();
    source.operand = static_cast<uint8_t>(&ref - refs.data());
    return add_scalar(source);
  }
  throw_internal(__FILE__, __LINE__, "a reference of another record");
}

ValueId LoweringBase::add_scalar(const ScalarSource& source) {
  const auto found = std::find(scalars_.begin(), scalars_.end(), source);
  const auto number = static_cast<int>(found - scalars_.begin());
  if (found == scalars_.end()) {
    scalars_.push_back(source);
    b_.add_scalar(source.dtype);
  }
  return b_.scalar(number);
}

void LoweringBase::store(size_t o, ValueId value) {
  scatter(o, Combine::kStore, value, kNoValue, kNoValue);
}

void LoweringBase::scatter(size_t o, Combine combine, ValueId value, ValueId offset, ValueId mask) {
  size_t number = 0;
  for (const CanonicalOperand& operand : canonical_.used()) {
    if (!operand.output) continue;
    if (operand.index == o) {
      outputs_[number].value = b_.convert(operand.ref->dtype, value);
      outputs_[number].combine = combine;
      outputs_[number].offset = offset;
      outputs_[number].mask = mask;
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
  for (const GraphOutput& output : outputs_) {
    NEURON_CHECK(output.value != kNoValue);
    // A value that varies less than its output (a fill) is repeated. Dims of stride 0 in an output
    // do not exist: outputs never overlap themselves.
    b_.output(output);
  }
  return {b_.finish(), std::move(scalars_)};
}

Lowered lower(const OpRecord& record, int part, const Canonical& canonical) {
  switch (op_info(record.op).family) {
    case OpFamily::kPointwise:
    case OpFamily::kGenerator:
    case OpFamily::kMatrix:
    case OpFamily::kRandom:
      return lower_pointwise(record, canonical);
    case OpFamily::kReduction:
      return lower_reduction(record, canonical);
    case OpFamily::kSoftmax:
      return lower_softmax(record, canonical);
    case OpFamily::kLayerNorm:
      return lower_layer_norm(record, canonical);
    case OpFamily::kLayerNormBackward:
      return lower_layer_norm_backward(record, part, canonical);
    case OpFamily::kIndexRead:
      return lower_index_read(record, canonical);
    case OpFamily::kIndexWrite:
      return lower_index_write(record, part, canonical);
    case OpFamily::kWindowRead:
      return lower_window_read(record, canonical);
    case OpFamily::kNllLoss:
      return lower_nll_loss(record, canonical);
    case OpFamily::kNllLossBackward:
      return lower_nll_loss_backward(record, canonical);
    case OpFamily::kBatchNorm:
    case OpFamily::kBatchNormInference:
    case OpFamily::kBatchNormBackward:
    case OpFamily::kBatchNormInferenceBackward:
      return lower_batch_norm(record, part, canonical);
    case OpFamily::kGroupNorm:
      return lower_group_norm(record, canonical);
    case OpFamily::kGroupNormBackward:
      return lower_group_norm_backward(record, part, canonical);
    case OpFamily::kRmsNorm:
      return lower_rms_norm(record, canonical);
    case OpFamily::kRmsNormBackward:
      return lower_rms_norm_backward(record, part, canonical);
    case OpFamily::kWeightNorm:
      return lower_weight_norm(record, canonical);
    case OpFamily::kScan:
      return lower_scan(record, canonical);
    case OpFamily::kLoss:
      return lower_loss(record, canonical);
  }
  throw_internal(__FILE__, __LINE__, "unknown family");
}

uint64_t scalar_bits(const ScalarSource& source, const OpRecord& record) {
  if (source.kind != ScalarSource::Kind::kWord) {
    const TensorRef& ref = (source.output ? record.outputs : record.inputs)[source.operand];
    const int64_t size = ref.sizes[source.word];
    if (source.kind == ScalarSource::Kind::kSize) return static_cast<uint64_t>(size);
    return size == 1 ? 0 : static_cast<uint64_t>(ref.strides[source.word]);
  }
  const uint64_t word = attribute_word(record.attributes, source.word);
  if (source.dtype != DType::kFloat32) return word;
  return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(word)));
}

}  // namespace neuron
