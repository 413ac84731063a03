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

}  // namespace

void TemporaryMemory::Free::operator()(std::byte* p) const { ::operator delete(p, kAlign); }

void TemporaryMemory::start(const WindowForm& form, const Plan& plan) {
  finish();  // an earlier window may have ended early
  form_ = &form;
  plan_ = &plan;
  searched_ = false;
}

std::byte* TemporaryMemory::address(const FormNode& node, size_t operand) {
  const TensorRef& ref = *node.canonical.operands[operand].ref;
  const auto block = static_cast<size_t>(node.block[operand]);
  std::byte* base = ref.block->address();
  if (node.temporary[operand] && form_->blocks[block].shares_memory) {
    if (!searched_) find_moved();
    Moved& m = moved_[static_cast<size_t>(moved_of_block_[block])];
    if (m.memory == nullptr) m.memory = take(m.bytes);
    base = m.memory.get();
  }
  return base + ref.byte_offset;
}

void TemporaryMemory::find_moved() {
  searched_ = true;
  moved_of_block_.assign(form_->blocks.size(), -1);
  for (size_t i = 0; i < form_->blocks.size(); ++i) {
    const FormBlock& b = form_->blocks[i];
    if (!b.temporary || !b.shares_memory) continue;
    moved_of_block_[i] = static_cast<int32_t>(moved_.size());
    moved_.push_back({.bytes = b.block->bytes(), .memory = {}});
  }
  for (size_t s = 0; s < plan_->steps.size(); ++s) {
    for (int n : plan_->steps[s].nodes) {
      const FormNode& node = form_->nodes[static_cast<size_t>(n)];
      for (size_t i = 0; i < node.canonical.operand_count; ++i) {
        const int32_t m = moved_of_block_[static_cast<size_t>(node.block[i])];
        if (m >= 0) moved_[static_cast<size_t>(m)].last_step = s;
      }
    }
  }
}

void TemporaryMemory::release_after(size_t step) {
  for (Moved& m : moved_) {
    if (m.memory != nullptr && m.last_step == step) give(m.bytes, std::move(m.memory));
  }
}

void TemporaryMemory::finish() {
  for (Moved& m : moved_) {
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
