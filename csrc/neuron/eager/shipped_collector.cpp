// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/shipped_collector.h"

#include <algorithm>
#include <string>

#include "neuron/base/error.h"
#include "neuron/fuse/fusion.h"
#include "neuron/runtime/block.h"

namespace neuron {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 40;

// Products of different dims differ, so that no two dims look alike.
int64_t dim_size(char letter) {
  constexpr int64_t kSizes[kMaxRank] = {3, 5, 7, 11, 13, 17};
  if (letter == 'z') return 1;
  if (letter == 'g') return 11 * ShippedCollector::kGroups;
  NEURON_CHECK(letter >= 'a' && letter < 'a' + kMaxRank);
  return kSizes[letter - 'a'];
}

}  // namespace

ShippedCollector::ShippedCollector() {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    auto* address = reinterpret_cast<std::byte*>((i + 1) * static_cast<size_t>(kBlockBytes));
    blocks_[i] = new Block(nullptr, address, static_cast<size_t>(kBlockBytes), nullptr);
  }
}

ShippedCollector::~ShippedCollector() {
  window_.clear();
  for (Block* block : blocks_) block->release();
}

TensorRef ShippedCollector::reference(const Operand& operand, std::string_view shape, Block* block,
                                      Geometry* g) {
  NEURON_CHECK(shape.size() <= kMaxRank);
  int64_t stride = 1;
  std::array<int64_t, 26> of_letter{};
  for (size_t at = operand.layout.size(); at-- > 0;) {
    const char letter = operand.layout[at];
    if (letter == '_') {
      stride *= 2;
    } else {
      of_letter[static_cast<size_t>(letter - 'a')] = stride;
      stride *= dim_size(letter);
    }
  }
  for (size_t d = 0; d < shape.size(); ++d) {
    g->sizes[d] = dim_size(shape[d]);
    g->strides[d] = of_letter[static_cast<size_t>(shape[d] - 'a')];
  }
  TensorRef ref;
  ref.block = block;
  ref.sizes = g->sizes.data();
  ref.strides = g->strides.data();
  ref.rank = static_cast<uint8_t>(shape.size());
  ref.dtype = operand.dtype;
  return ref;
}

void ShippedCollector::add(LoweredOp op, std::string_view shape, const std::vector<Operand>& inputs,
                           const std::vector<Operand>& outputs, const AttributeWriter& attributes) {
  NEURON_CHECK(inputs.size() + outputs.size() <= blocks_.size());
  std::array<Geometry, 2 * kMaxOperands> geometry;
  std::vector<TensorRef> in, out;
  size_t next = 0;
  const auto refer = [&](const Operand& o, std::vector<TensorRef>* to) {
    Block* block = o.memory_of < 0 ? blocks_[next] : blocks_[static_cast<size_t>(o.memory_of)];
    to->push_back(
        reference(o, o.shape.data() == nullptr ? shape : o.shape, block, &geometry[next]));
    ++next;
  };
  for (const Operand& o : inputs) refer(o, &in);
  for (const Operand& o : outputs) refer(o, &out);
  RecordRequest request;
  request.op = op_id(op);
  request.inputs = in;
  request.outputs = out;
  request.attributes = attributes.bytes();
  window_.append(std::move(request));
  const Plan plan = make_plan(analyzer_.analyze(window_, 0, 1), {.fuse = false});
  window_.clear();
  for (const Step& step : plan.steps) {
    if (known_.insert(to_text(step.fused.nest)).second) nests_.push_back(step.fused.nest);
  }
}

}  // namespace neuron
