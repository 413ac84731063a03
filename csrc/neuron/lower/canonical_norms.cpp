// SPDX-License-Identifier: Apache-2.0
//
// Canonical forms of norms: whole operands, ones that lie along some of the dims, and which dims
// are reduced over.
#include "neuron/lower/attributes.h"
#include "neuron/lower/canonical_space.h"

namespace neuron {
namespace {

enum : size_t { kShapeWord, kPresentWord, kWantedWord };

bool present(const OpRecord& record, int operand) {
  return (attribute_word(record.attributes, kPresentWord) >> operand & 1) != 0;
}

// Operands of a layer norm: whole ones, ones along the normalised dims, ones along the others.
struct LayerNormSpace : CanonicalSpace {
  int leading;

  LayerNormSpace(const OpRecord& record, const TensorRef& input, bool columns, Canonical* c) {
    out = c;
    take_shape(input, this);
    leading = rank - static_cast<int>(attribute_word(record.attributes, kShapeWord));
    for (int d = 0; d < rank; ++d) row[static_cast<size_t>(d)] = (d < leading) == columns;
    keep_row_order = true;
  }
  void whole(CanonicalOperand& o) const { bind_last(o); }
  void along_normalised(CanonicalOperand& o) const { bind_last(o); }
  void statistic(CanonicalOperand& o) const {
    for (int d = 0; d < leading; ++d) bind(o, d, d);
  }
};

// Also RMS norms.
void layer_norm(const OpRecord& record, Canonical* c) {
  LayerNormSpace s(record, record.inputs[0], false, c);
  s.whole(s.add(record.inputs, 0, false));
  for (size_t i = 1; i < record.inputs.size(); ++i)
    s.along_normalised(s.add(record.inputs, i, false));
  s.whole(s.add(record.outputs, 0, true));
  for (size_t i = 1; i < record.outputs.size(); ++i) s.statistic(s.add(record.outputs, i, true));
  collapse(s, 0);
  finish_rows(c, 0);
  c->walk = Walk::kRow;
}

// Inputs: grad_out, input, `statistics` of them, weight.
void layer_norm_backward(const OpRecord& record, int part, size_t statistics, Canonical* c) {
  const NormWanted wanted = norm_wanted(record);
  const bool columns = part == 1 || wanted.input < 0;
  LayerNormSpace s(record, record.inputs[1], columns, c);
  s.whole(s.add(record.inputs, 0, false));
  if (!columns || wanted.weight >= 0) {
    s.whole(s.add(record.inputs, 1, false));
    for (size_t i = 0; i < statistics; ++i) s.statistic(s.add(record.inputs, 2 + i, false));
  }
  if (!columns) {
    const size_t weight = 2 + statistics;
    if (record.inputs.size() > weight) s.along_normalised(s.add(record.inputs, weight, false));
    s.whole(s.add(record.outputs, static_cast<size_t>(wanted.input), true));
  } else {
    for (int o : {wanted.weight, wanted.bias}) {
      if (o >= 0) s.along_normalised(s.add(record.outputs, static_cast<size_t>(o), true));
    }
  }
  collapse(s, 0);
  finish_rows(c, 0);
  if (!columns) c->walk = Walk::kRow;
}

// Operands of a batch norm: whole ones, and ones along the channels.
struct BatchNormSpace : CanonicalSpace {
  BatchNormSpace(const TensorRef& input, bool reduces, Canonical* c) {
    out = c;
    take_shape(input, this);
    for (int d = 0; d < rank; ++d) row[static_cast<size_t>(d)] = reduces && d != 1;
  }
  void channel(CanonicalOperand& o) const { bind(o, 1, 0); }
  void finish(bool reduces, size_t main_operand) const {
    collapse(*this, main_operand);
    if (reduces) {
      finish_rows(out, main_operand);
    } else {
      out->walk = Walk::kPointwise;
    }
  }
};

void batch_norm(const OpRecord& record, bool training, Canonical* c) {
  BatchNormSpace s(record.inputs[0], training, c);
  s.bind_last(s.add(record.inputs, 0, false));
  for (size_t i = 1; i < record.inputs.size(); ++i) s.channel(s.add(record.inputs, i, false));
  const size_t result = c->operand_count;
  s.bind_last(s.add(record.outputs, 0, true));
  for (size_t i = 1; i < record.outputs.size(); ++i) s.channel(s.add(record.outputs, i, true));
  s.finish(training, training ? 0 : result);
}

void batch_norm_backward(const OpRecord& record, Canonical* c) {
  const NormWanted wanted = norm_wanted(record);
  BatchNormSpace s(record.inputs[1], true, c);
  s.bind_last(s.add(record.inputs, 0, false));
  s.bind_last(s.add(record.inputs, 1, false));
  for (size_t i = 2; i < record.inputs.size(); ++i) s.channel(s.add(record.inputs, i, false));
  if (wanted.input >= 0) {
    s.bind_last(s.add(record.outputs, static_cast<size_t>(wanted.input), true));
  }
  for (int o : {wanted.weight, wanted.bias}) {
    if (o >= 0) s.channel(s.add(record.outputs, static_cast<size_t>(o), true));
  }
  s.finish(true, 1);
}

void batch_norm_inference_backward(const OpRecord& record, int part, Canonical* c) {
  const NormWanted wanted = norm_wanted(record);
  const bool reduces = part == 1 || wanted.input < 0;
  BatchNormSpace s(record.inputs[1], reduces, c);
  const size_t mean = present(record, 2) ? 3 : 2;
  s.bind_last(s.add(record.inputs, 0, false));
  if (!reduces) {
    if (present(record, 2)) s.channel(s.add(record.inputs, 2, false));
    s.channel(s.add(record.inputs, mean + 1, false));
    const size_t result = c->operand_count;
    s.bind_last(s.add(record.outputs, static_cast<size_t>(wanted.input), true));
    return s.finish(false, result);
  }
  if (wanted.weight >= 0) {
    s.bind_last(s.add(record.inputs, 1, false));
    s.channel(s.add(record.inputs, mean, false));
    s.channel(s.add(record.inputs, mean + 1, false));
  }
  for (int o : {wanted.weight, wanted.bias}) {
    if (o >= 0) s.channel(s.add(record.outputs, static_cast<size_t>(o), true));
  }
  s.finish(true, 0);
}

// Dims N, groups, channels of a group, and the rest of the input's.
struct GroupNormSpace : CanonicalSpace {
  int64_t group_channels;

  GroupNormSpace(const OpRecord& record, const TensorRef& input, Canonical* c) {
    if (input.rank >= kMaxRank) {
      throw Error(ErrorCode::kUnsupported, "a group norm of an input with more than five dims");
    }
    const auto groups = static_cast<int64_t>(attribute_word(record.attributes, kShapeWord));
    out = c;
    rank = input.rank + 1;
    group_channels = input.sizes[1] / groups;
    sizes[0] = input.sizes[0];
    sizes[1] = groups;
    sizes[2] = group_channels;
    for (int d = 2; d < input.rank; ++d) sizes[static_cast<size_t>(d) + 1] = input.sizes[d];
  }
  void bind_channels(CanonicalOperand& o, int64_t stride) const {
    o.strides[1] = sizes[1] == 1 ? 0 : stride * group_channels;
    o.strides[2] = sizes[2] == 1 ? 0 : stride;
  }
  void whole(CanonicalOperand& o) const {
    bind(o, 0, 0);
    bind_channels(o, o.ref->strides[1]);
    for (int d = 2; d < o.ref->rank; ++d) bind(o, d + 1, d);
  }
  void channel(CanonicalOperand& o) const { bind_channels(o, o.ref->strides[0]); }
  void statistic(CanonicalOperand& o) const {
    bind(o, 0, 0);
    bind(o, 1, 1);
  }
};

void group_norm(const OpRecord& record, Canonical* c) {
  GroupNormSpace s(record, record.inputs[0], c);
  for (int d = 2; d < s.rank; ++d) s.row[static_cast<size_t>(d)] = true;
  s.whole(s.add(record.inputs, 0, false));
  for (size_t i = 1; i < record.inputs.size(); ++i) s.channel(s.add(record.inputs, i, false));
  s.whole(s.add(record.outputs, 0, true));
  for (size_t i = 1; i < record.outputs.size(); ++i) s.statistic(s.add(record.outputs, i, true));
  collapse(s, 0);
  finish_rows(c, 0);
}

void group_norm_backward(const OpRecord& record, int part, Canonical* c) {
  const NormWanted wanted = norm_wanted(record);
  const bool parameters = part == 1 || wanted.input < 0;
  GroupNormSpace s(record, record.inputs[1], c);
  for (int d = 0; d < s.rank; ++d) {
    s.row[static_cast<size_t>(d)] = parameters ? d == 0 || d > 2 : d >= 2;
  }
  s.whole(s.add(record.inputs, 0, false));
  if (!parameters || wanted.weight >= 0) {
    s.whole(s.add(record.inputs, 1, false));
    s.statistic(s.add(record.inputs, 2, false));
    s.statistic(s.add(record.inputs, 3, false));
  }
  if (!parameters) {
    if (record.inputs.size() > 4) s.channel(s.add(record.inputs, 4, false));
    s.whole(s.add(record.outputs, static_cast<size_t>(wanted.input), true));
  } else {
    for (int o : {wanted.weight, wanted.bias}) {
      if (o >= 0) s.channel(s.add(record.outputs, static_cast<size_t>(o), true));
    }
  }
  collapse(s, 0);
  finish_rows(c, 0);
}

void weight_norm(const OpRecord& record, Canonical* c) {
  CanonicalSpace s;
  s.out = c;
  take_shape(record.inputs[0], &s);
  const auto kept = static_cast<int>(attribute_word(record.attributes, kShapeWord));
  for (int d = 0; d < s.rank; ++d) s.row[static_cast<size_t>(d)] = d != kept;
  for (size_t i = 0; i < record.inputs.size(); ++i) s.bind_last(s.add(record.inputs, i, false));
  for (size_t i = 0; i < record.outputs.size(); ++i) s.bind_last(s.add(record.outputs, i, true));
  collapse(s, 0);
  finish_rows(c, 0);
}

}  // namespace

NormWanted norm_wanted(const OpRecord& record) {
  const uint64_t mask = attribute_word(record.attributes, kWantedWord);
  NormWanted wanted;
  int next = 0;
  if ((mask & 1) != 0) wanted.input = next++;
  if ((mask & 2) != 0) wanted.weight = next++;
  if ((mask & 4) != 0) wanted.bias = next++;
  return wanted;
}

int part_count(const OpRecord& record) {
  switch (op_info(record.op).family) {
    case OpFamily::kIndexWrite:
      return index_write_parts(record).count;
    case OpFamily::kLayerNormBackward:
    case OpFamily::kBatchNormInferenceBackward:
    case OpFamily::kGroupNormBackward:
    case OpFamily::kRmsNormBackward: {
      const NormWanted wanted = norm_wanted(record);
      return wanted.input >= 0 && (wanted.weight >= 0 || wanted.bias >= 0) ? 2 : 1;
    }
    default:
      return 1;
  }
}

void canonicalize_norm(const OpRecord& record, int part, Canonical* c) {
  switch (op_info(record.op).family) {
    case OpFamily::kLayerNorm:
    case OpFamily::kRmsNorm:
      return layer_norm(record, c);
    case OpFamily::kLayerNormBackward:
      return layer_norm_backward(record, part, 2, c);
    case OpFamily::kRmsNormBackward:
      return layer_norm_backward(record, part, 1, c);
    case OpFamily::kBatchNorm:
      return batch_norm(record, true, c);
    case OpFamily::kBatchNormInference:
      return batch_norm(record, false, c);
    case OpFamily::kBatchNormBackward:
      return batch_norm_backward(record, c);
    case OpFamily::kBatchNormInferenceBackward:
      return batch_norm_inference_backward(record, part, c);
    case OpFamily::kGroupNorm:
      return group_norm(record, c);
    case OpFamily::kGroupNormBackward:
      return group_norm_backward(record, part, c);
    case OpFamily::kWeightNorm:
      return weight_norm(record, c);
    default:
      throw_internal(__FILE__, __LINE__, "not a norm");
  }
}

}  // namespace neuron
