// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/temporaries.h"

#include <algorithm>
#include <bit>
#include <new>

#include "neuron/base/error.h"
#include "neuron/runtime/block.h"

namespace neuron {
namespace {

constexpr std::align_val_t kAlign{256};

struct Interval {
  const std::byte* low;
  const std::byte* high;
  const Block* block;
  bool temporary;
};

}  // namespace

void TemporaryMemory::Free::operator()(std::byte* p) const { ::operator delete(p, kAlign); }

void TemporaryMemory::start(const WindowForm& form, const Plan& plan) {
  form_ = &form;
  finish();  // an earlier window may have ended early
  plan_ = &plan;
  searched_ = false;
}

std::byte* TemporaryMemory::address(const FormNode& node, size_t operand) {
  const TensorRef& ref = *node.canonical.operands[operand].ref;
  std::byte* base = ref.block->address();
  if (node.temporary[operand]) {
    if (!searched_) find_conflicts();
    const auto found = moved_.find(ref.block);
    if (found != moved_.end()) {
      Moved& m = found->second;
      if (m.memory == nullptr) m.memory = take(m.bytes);
      base = m.memory.get();
    }
  }
  return base + ref.byte_offset;
}

void TemporaryMemory::find_conflicts() {
  searched_ = true;
  std::unordered_map<const Block*, bool> blocks;
  for (const FormNode& node : form_->nodes) {
    if (node.host) {
      for (const auto refs : {node.record->inputs, node.record->outputs}) {
        for (const TensorRef& ref : refs) blocks.emplace(ref.block, false);
      }
      continue;
    }
    for (size_t i = 0; i < node.canonical.operand_count; ++i) {
      blocks.emplace(node.canonical.operands[i].ref->block, node.temporary[i]);
    }
  }
  std::vector<Interval> intervals;
  for (const auto& [block, temporary] : blocks) {
    if (block->bytes() == 0) continue;
    intervals.push_back({block->address(), block->address() + block->bytes(), block, temporary});
  }
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.low < b.low; });
  // Runs of intervals that touch the same memory, directly or through others.
  for (size_t first = 0; first < intervals.size();) {
    const std::byte* high = intervals[first].high;
    size_t next = first + 1;
    while (next < intervals.size() && intervals[next].low < high) {
      high = std::max(high, intervals[next++].high);
    }
    for (size_t i = first; next - first > 1 && i < next; ++i) {
      if (intervals[i].temporary) moved_[intervals[i].block].bytes = intervals[i].block->bytes();
    }
    first = next;
  }
  if (moved_.empty()) return;
  for (size_t s = 0; s < plan_->steps.size(); ++s) {
    for (int n : plan_->steps[s].nodes) {
      const Canonical& c = form_->nodes[static_cast<size_t>(n)].canonical;
      for (const CanonicalOperand& o : c.used()) {
        const auto found = moved_.find(o.ref->block);
        if (found != moved_.end()) found->second.last_step = s;
      }
    }
  }
}

void TemporaryMemory::release_after(size_t step) {
  for (auto& [block, m] : moved_) {
    if (m.memory != nullptr && m.last_step == step) give(m.bytes, std::move(m.memory));
  }
}

void TemporaryMemory::finish() {
  for (auto& [block, m] : moved_) {
    if (m.memory != nullptr) give(m.bytes, std::move(m.memory));
  }
  moved_.clear();
}

TemporaryMemory::Memory TemporaryMemory::take(size_t bytes) {
  const size_t rounded = std::bit_ceil(std::max<size_t>(bytes, 4096));
  const auto found = cached_.find(rounded);
  if (found != cached_.end()) {
    Memory memory = std::move(found->second);
    cached_.erase(found);
    cached_bytes_ -= rounded;
    return memory;
  }
  void* memory = ::operator new(rounded, kAlign, std::nothrow);
  if (memory == nullptr) {
    throw Error(ErrorCode::kOutOfMemory,
                "no host memory for a temporary of " + std::to_string(bytes) + " bytes");
  }
  return Memory(static_cast<std::byte*>(memory));
}

void TemporaryMemory::give(size_t bytes, Memory memory) {
  const size_t rounded = std::bit_ceil(std::max<size_t>(bytes, 4096));
  if (cached_bytes_ + rounded > kMaxCachedBytes) return;  // freed here
  cached_bytes_ += rounded;
  cached_.emplace(rounded, std::move(memory));
}

}  // namespace neuron
