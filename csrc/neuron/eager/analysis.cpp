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
  size_t operands = 0;
  for (size_t i = begin; i < end; ++i) {
    const OpRecord& record = window[i];
    const auto index = static_cast<int32_t>(i);
    if (is_lowered(record.op)) {
      const int parts = part_count(record);
      for (int part = 0; part < parts; ++part) add_part(record, index, part, operands);
    } else {
      NEURON_CHECK(record.op == OpId::kHostCall);
      add_host(record, index, operands);
    }
    operands += record.inputs.size() + record.outputs.size();
  }
  return form_;
}

int32_t WindowAnalyzer::block_index(Block* block) {
  if (2 * form_.blocks.size() >= table_.size()) grow_table();
  const size_t mask = table_.size() - 1;
  size_t at = (reinterpret_cast<uintptr_t>(block) * 0x9e3779b97f4a7c15u >> 32) & mask;
  while (table_[at].stamp == stamp_) {
    if (table_[at].block == block) return table_[at].index;
    at = (at + 1) & mask;
  }
  const auto index = static_cast<int32_t>(form_.blocks.size());
  table_[at] = {block, stamp_, index};
  form_.blocks.push_back({block});
  blocks_.emplace_back();
  return index;
}

void WindowAnalyzer::grow_table() {
  const size_t mask = 2 * table_.size() - 1;
  std::vector<Slot> old(2 * table_.size());
  old.swap(table_);
  for (const Slot& slot : old) {
    if (slot.stamp != stamp_) continue;
    size_t at = (reinterpret_cast<uintptr_t>(slot.block) * 0x9e3779b97f4a7c15u >> 32) & mask;
    while (table_[at].stamp == stamp_) at = (at + 1) & mask;
    table_[at] = slot;
  }
}

void WindowAnalyzer::note_blocks(const Window& window, size_t begin, size_t end) {
  ++stamp_;
  form_.blocks.clear();
  blocks_.clear();
  operand_blocks_.clear();
  for (size_t i = begin; i < end; ++i) {
    const OpRecord& record = window[i];
    const bool host = !is_lowered(record.op);
    const auto note = [&](const TensorRef& ref, bool read) {
      const int32_t index = block_index(ref.block);
      operand_blocks_.push_back(index);
      BlockState& b = blocks_[static_cast<size_t>(index)];
      b.first_is_read |= read && b.references == 0;
      ++b.references;
      b.host |= host;
    };
    for (const TensorRef& ref : record.inputs) note(ref, true);
    for (const TensorRef& ref : record.outputs) note(ref, false);
  }
}

void WindowAnalyzer::find_regions() {
  region_count_ = 0;
  const auto new_region = [&] {
    if (region_count_ == regions_.size()) regions_.emplace_back();
    regions_[region_count_].history.clear();
    regions_[region_count_].distinct.clear();
    return static_cast<int>(region_count_++);
  };
  std::vector<FormBlock>& blocks = form_.blocks;
  std::vector<int32_t>& order = block_order_;
  order.resize(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const BlockState& b = blocks_[i];
    const Block& block = *blocks[i].block;
    // `live` before `references`: a storage gives up its reference after it has marked the block.
    blocks[i].temporary =
        !b.host && !b.first_is_read && !block.live() && block.references() == b.references;
    order[i] = static_cast<int32_t>(i);
  }
  const auto address = [&](int32_t i) {
    return reinterpret_cast<uintptr_t>(blocks[static_cast<size_t>(i)].block->address());
  };
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return address(a) < address(b); });
  // Temporaries are regions of their own, wherever they are; other blocks that touch are one.
  uintptr_t end = 0, end_of_all = 0;
  int region = -1;
  int32_t last = -1;  // the block that reaches furthest
  for (int32_t i : order) {
    FormBlock& block = blocks[static_cast<size_t>(i)];
    BlockState& b = blocks_[static_cast<size_t>(i)];
    const uintptr_t block_end = address(i) + block.block->bytes();
    if (address(i) < end_of_all && block.block->bytes() > 0) {
      block.shares_memory = blocks[static_cast<size_t>(last)].shares_memory = true;
    }
    if (block_end > end_of_all) {
      end_of_all = block_end;
      last = i;
    }
    if (block.temporary) {
      b.region = new_region();
      continue;
    }
    if (region < 0 || address(i) >= end) region = new_region();
    b.region = region;
    end = std::max(end, block_end);
  }
}

void WindowAnalyzer::add_host(const OpRecord& record, int32_t index, size_t operands) {
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
  const size_t inputs = record.inputs.size();
  for (size_t k = 0; k < inputs + record.outputs.size(); ++k) {
    const auto block = static_cast<size_t>(operand_blocks_[operands + k]);
    const Block& memory = *form_.blocks[block].block;
    const auto low = reinterpret_cast<uintptr_t>(memory.address());
    const Access access{.node = number,
                        .operand = Edge::kWholeNode,
                        .write = k >= inputs,
                        .dense = true,
                        .dtype = DType::kOpaque,
                        .low = low,
                        .high = low + memory.bytes(),
                        .identity = -1};
    touch(regions_[static_cast<size_t>(blocks_[block].region)], access);
  }
  node.edge_count = static_cast<int32_t>(form_.edges.size()) - node.first_edge;
  form_.key.push_back(kHostMark | static_cast<uint64_t>(node.edge_count));
  for (int32_t e = node.first_edge; e < node.first_edge + node.edge_count; ++e) {
    const Edge& edge = form_.edges[static_cast<size_t>(e)];
    form_.key.push_back(static_cast<uint64_t>(edge.from) << 8 | edge.from_operand);
  }
}

void WindowAnalyzer::add_part(const OpRecord& record, int32_t index, int part, size_t operands) {
  const auto number = static_cast<int32_t>(form_.nodes.size());
  FormNode& node = form_.nodes.emplace_back();
  node.record = &record;
  node.record_index = index;
  node.part = static_cast<uint8_t>(part);
  canonicalize(record, part, &node.canonical);
  node.first_edge = static_cast<int32_t>(form_.edges.size());
  // Inputs come first among the operands: an in-place operation reads before it writes.
  for (size_t i = 0; i < node.canonical.operand_count; ++i) {
    const CanonicalOperand& o = node.canonical.operands[i];
    const size_t position = (o.output ? record.inputs.size() : 0) + o.index;
    const int32_t block = operand_blocks_[operands + position];
    Region& region = regions_[static_cast<size_t>(blocks_[static_cast<size_t>(block)].region)];
    node.block[i] = block;
    node.temporary[i] = form_.blocks[static_cast<size_t>(block)].temporary;
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
