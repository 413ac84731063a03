// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/analysis.h"

#include <algorithm>

#include "neuron/base/error.h"
#include "neuron/lower/attributes.h"
#include "neuron/runtime/block.h"

namespace neuron {
namespace {

struct Dim {
  int64_t size, stride;
};

// An operand's own geometry: dims that it varies over, by descending stride, merged.
size_t normalise(const Canonical& c, size_t operand, std::array<Dim, kMaxRank>* dims) {
  size_t count = 0;
  for (int d = 0; d < c.rank(); ++d) {
    const int64_t stride = c.operands[operand].strides[static_cast<size_t>(d)];
    if (stride == 0) continue;
    size_t at = count++;
    for (; at > 0 && (*dims)[at - 1].stride < stride; --at) (*dims)[at] = (*dims)[at - 1];
    (*dims)[at] = {c.sizes[static_cast<size_t>(d)], stride};
  }
  size_t kept = 0;
  for (size_t d = 0; d < count; ++d) {
    Dim& last = (*dims)[kept == 0 ? 0 : kept - 1];
    const Dim next = (*dims)[d];
    if (kept > 0 && last.stride == next.stride * next.size) {
      last = {last.size * next.size, next.stride};
    } else {
      (*dims)[kept++] = next;
    }
  }
  return kept;
}

size_t structural_words(OpFamily family) {
  switch (family) {
    case OpFamily::kPointwise:
    case OpFamily::kSoftmax:
      return 2;
    case OpFamily::kReduction:
    case OpFamily::kLayerNorm:
    case OpFamily::kLayerNormBackward:
      return 3;
    case OpFamily::kIndexRead:
    case OpFamily::kIndexWrite:
    case OpFamily::kWindowRead:
    case OpFamily::kNllLoss:
    case OpFamily::kNllLossBackward:
      return kIndexingWords;
  }
  return 0;
}

constexpr uint64_t kHostMark = uint64_t{1} << 63;

}  // namespace

const WindowForm& WindowAnalyzer::analyze(const Window& window, size_t begin, size_t end) {
  form_.nodes.clear();
  form_.edges.clear();
  form_.key.clear();
  sizes_.clear();
  next_identity_ = 0;
  last_host_ = -1;
  note_blocks(window, begin, end);
  find_regions();
  for (size_t i = begin; i < end; ++i) {
    const OpRecord& record = window[i];
    const auto index = static_cast<int32_t>(i);
    if (!is_lowered(record.op)) {
      NEURON_CHECK(record.op == OpId::kHostCall);
      add_host(record, index);
      continue;
    }
    const int parts = part_count(record);
    for (int part = 0; part < parts; ++part) add_part(record, index, part);
  }
  return form_;
}

int WindowAnalyzer::block_index(Block* block) {
  const auto [place, inserted] = index_.emplace(block, static_cast<int>(blocks_.size()));
  if (inserted) blocks_.push_back({block});
  return place->second;
}

void WindowAnalyzer::note_blocks(const Window& window, size_t begin, size_t end) {
  index_.clear();
  blocks_.clear();
  for (size_t i = begin; i < end; ++i) {
    const OpRecord& record = window[i];
    const bool host = !is_lowered(record.op);
    for (const TensorRef& ref : record.inputs) {
      BlockState& b = blocks_[static_cast<size_t>(block_index(ref.block))];
      b.first_is_read |= b.references == 0;
      ++b.references;
      b.host |= host;
    }
    for (const TensorRef& ref : record.outputs) {
      BlockState& b = blocks_[static_cast<size_t>(block_index(ref.block))];
      ++b.references;
      b.host |= host;
    }
  }
}

void WindowAnalyzer::find_regions() {
  std::vector<int>& order = block_order_;
  order.clear();
  region_count_ = 0;
  const auto new_region = [&] {
    if (region_count_ == regions_.size()) regions_.emplace_back();
    regions_[region_count_].history.clear();
    regions_[region_count_].distinct.clear();
    return static_cast<int>(region_count_++);
  };
  for (size_t i = 0; i < blocks_.size(); ++i) {
    BlockState& b = blocks_[i];
    // `live` before `references`: a storage gives up its reference after it has marked the block.
    b.temporary =
        !b.host && !b.first_is_read && !b.block->live() && b.block->references() == b.references;
    if (b.temporary) {
      b.region = new_region();
    } else {
      order.push_back(static_cast<int>(i));
    }
  }
  const auto address = [&](int i) {
    return reinterpret_cast<uintptr_t>(blocks_[static_cast<size_t>(i)].block->address());
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return address(a) < address(b); });
  uintptr_t end = 0;
  int region = -1;
  for (int i : order) {
    BlockState& b = blocks_[static_cast<size_t>(i)];
    if (region < 0 || address(i) >= end) region = new_region();
    b.region = region;
    end = std::max(end, address(i) + b.block->bytes());
  }
}

void WindowAnalyzer::add_host(const OpRecord& record, int32_t index) {
  const auto number = static_cast<int32_t>(form_.nodes.size());
  FormNode& node = form_.nodes.emplace_back();
  node.record = &record;
  node.record_index = index;
  node.host = true;
  node.first_edge = static_cast<int32_t>(form_.edges.size());
  if (last_host_ >= 0) {
    form_.edges.push_back({last_host_, Edge::kWholeNode, Edge::kWholeNode, Link::kOrder});
  }
  last_host_ = number;
  for (const auto refs : {record.inputs, record.outputs}) {
    for (const TensorRef& ref : refs) {
      const auto low = reinterpret_cast<uintptr_t>(ref.block->address());
      const Access access{.node = number,
                          .operand = Edge::kWholeNode,
                          .write = refs.data() == record.outputs.data(),
                          .dense = true,
                          .dtype = DType::kOpaque,
                          .low = low,
                          .high = low + ref.block->bytes(),
                          .identity = -1};
      const int block = index_.at(ref.block);
      touch(regions_[static_cast<size_t>(blocks_[static_cast<size_t>(block)].region)], access);
    }
  }
  node.edge_count = static_cast<int32_t>(form_.edges.size()) - node.first_edge;
  form_.key.push_back(kHostMark | static_cast<uint64_t>(node.edge_count));
  for (int32_t e = node.first_edge; e < node.first_edge + node.edge_count; ++e) {
    const Edge& edge = form_.edges[static_cast<size_t>(e)];
    form_.key.push_back(static_cast<uint64_t>(edge.from) << 8 | edge.from_operand);
  }
}

void WindowAnalyzer::add_part(const OpRecord& record, int32_t index, int part) {
  const auto number = static_cast<int32_t>(form_.nodes.size());
  FormNode& node = form_.nodes.emplace_back();
  node.record = &record;
  node.record_index = index;
  node.part = static_cast<uint8_t>(part);
  canonicalize(record, part, &node.canonical);
  node.first_edge = static_cast<int32_t>(form_.edges.size());
  // Inputs come first among the operands: an in-place operation reads before it writes.
  for (size_t i = 0; i < node.canonical.operand_count; ++i) {
    const int block = index_.at(node.canonical.operands[i].ref->block);
    const BlockState& b = blocks_[static_cast<size_t>(block)];
    Region& region = regions_[static_cast<size_t>(b.region)];
    node.temporary[i] = b.temporary;
    Access access = describe(node, number, i);
    // Nothing is known about computed places: whatever overlaps is ordered.
    access.identity =
        node.canonical.operands[i].indexed ? next_identity_++ : identify(region, access);
    node.access[i] = access.identity;
    touch(region, access);
  }
  node.edge_count = static_cast<int32_t>(form_.edges.size()) - node.first_edge;
  add_key(node);
}

WindowAnalyzer::Access WindowAnalyzer::describe(const FormNode& node, int32_t number,
                                                size_t operand) const {
  const CanonicalOperand& o = node.canonical.operands[operand];
  int64_t first = 0, last = 0, elements = 1;
  const auto extend = [&](int64_t size, int64_t stride) {
    (stride < 0 ? first : last) += (size - 1) * stride;
    if (stride != 0) elements *= size;
  };
  if (o.indexed) {
    for (size_t d = 0; d < o.ref->rank; ++d) extend(o.ref->sizes[d], o.ref->strides[d]);
  } else {
    for (int d = 0; d < node.canonical.rank(); ++d) {
      const auto k = static_cast<size_t>(d);
      extend(node.canonical.sizes[k], o.strides[k]);
    }
  }
  const auto bytes = static_cast<int64_t>(element_size(o.ref->dtype));
  const auto start = reinterpret_cast<uintptr_t>(o.ref->block->address()) +
                     static_cast<uintptr_t>(o.ref->byte_offset);
  return {.node = number,
          .operand = static_cast<uint8_t>(operand),
          .write = o.output,
          .dense = !o.indexed && first == 0 && elements == last + 1,
          .dtype = o.ref->dtype,
          .low = start + static_cast<uintptr_t>(first * bytes),
          .high = start + static_cast<uintptr_t>((last + 1) * bytes),
          .identity = -1};
}

bool WindowAnalyzer::same_elements(const Access& a, const Access& b) const {
  if (a.low != b.low || a.high != b.high || a.dtype != b.dtype || a.dense != b.dense) return false;
  if (a.dense) return true;
  std::array<Dim, kMaxRank> p, q;
  const auto& nodes = form_.nodes;
  const size_t m = normalise(nodes[static_cast<size_t>(a.node)].canonical, a.operand, &p);
  const size_t n = normalise(nodes[static_cast<size_t>(b.node)].canonical, b.operand, &q);
  return m == n && std::equal(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(m), q.begin(),
                              [](const Dim& x, const Dim& y) {
                                return x.size == y.size && x.stride == y.stride;
                              });
}

int32_t WindowAnalyzer::identify(Region& region, const Access& access) {
  for (const Access& known : region.distinct) {
    if (same_elements(known, access)) return known.identity;
  }
  region.distinct.push_back(access);
  region.distinct.back().identity = next_identity_;
  return next_identity_++;
}

void WindowAnalyzer::touch(Region& region, const Access& access) {
  for (size_t k = region.history.size(); k-- > 0;) {
    const Access& earlier = region.history[k];
    if (earlier.node == access.node) continue;
    if (!earlier.write && !access.write) continue;
    if (earlier.low >= access.high || access.low >= earlier.high) continue;
    const bool same = access.identity >= 0 && earlier.identity == access.identity;
    const Link link = !same ? Link::kOrder : access.write ? Link::kAligned : Link::kForward;
    form_.edges.push_back({earlier.node, earlier.operand, access.operand, link});
    // What came before a write that covers the access is ordered before that write.
    const bool covers = earlier.dense && earlier.low <= access.low && access.high <= earlier.high;
    if (earlier.write && (same || covers)) break;
  }
  region.history.push_back(access);
}

uint64_t WindowAnalyzer::size_class(int64_t size) {
  if (size <= 1) return static_cast<uint64_t>(size);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (sizes_[i] == size) return i + 2;
  }
  sizes_.push_back(size);
  return sizes_.size() + 1;
}

void WindowAnalyzer::add_key(const FormNode& node) {
  std::vector<uint64_t>& key = form_.key;
  const OpRecord& record = *node.record;
  const Canonical& c = node.canonical;
  key.push_back(
      static_cast<uint64_t>(record.op) | static_cast<uint64_t>(node.part) << 16 |
      static_cast<uint64_t>(c.walk) << 24 | static_cast<uint64_t>(c.parallel_rank) << 28 |
      static_cast<uint64_t>(c.row_rank) << 32 | static_cast<uint64_t>(c.operand_count) << 36 |
      static_cast<uint64_t>(has_long_rows(c)) << 40 | static_cast<uint64_t>(node.edge_count) << 41);
  const size_t words = structural_words(op_info(record.op).family);
  for (size_t w = 0; w < words; ++w) key.push_back(attribute_word(record.attributes, w));
  uint64_t classes = 0;
  for (int d = 0; d < c.rank(); ++d) {
    const uint64_t k = size_class(c.sizes[static_cast<size_t>(d)]);
    if (d == 3) {
      key.push_back(classes);
      classes = 0;
    }
    classes = classes << 20 | k;
  }
  key.push_back(classes);
  if (c.positions != 0) {
    uint64_t origins = 0;
    for (int d = 0; d < c.rank(); ++d) origins = origins << 3 | c.origin[static_cast<size_t>(d)];
    key.push_back(origins);
  }
  for (size_t i = 0; i < c.operand_count; ++i) {
    const CanonicalOperand& o = c.operands[i];
    // Per dim: zero, unit or other, and the rank of the stride among the operand's.
    uint64_t strides = 0;
    for (int d = 0; d < c.rank(); ++d) {
      const int64_t stride = o.strides[static_cast<size_t>(d)];
      uint64_t larger = 0;
      for (int e = 0; e < c.rank(); ++e) larger += o.strides[static_cast<size_t>(e)] > stride;
      strides = strides << 5 | larger << 2 | (stride < 0 ? 2 : std::min<uint64_t>(stride, 2));
    }
    key.push_back(strides | static_cast<uint64_t>(o.ref->dtype) << 32 |
                  static_cast<uint64_t>(node.temporary[i]) << 40 |
                  static_cast<uint64_t>(o.output) << 41);
    key.push_back(static_cast<uint64_t>(node.access[i]));
  }
  for (int32_t e = node.first_edge; e < node.first_edge + node.edge_count; ++e) {
    const Edge& edge = form_.edges[static_cast<size_t>(e)];
    key.push_back(static_cast<uint64_t>(edge.from) << 24 |
                  static_cast<uint64_t>(edge.from_operand) << 16 |
                  static_cast<uint64_t>(edge.to_operand) << 8 | static_cast<uint64_t>(edge.link));
  }
}

}  // namespace neuron
