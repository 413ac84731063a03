// SPDX-License-Identifier: Apache-2.0
//
// What a MemoryPool tells: statistics, snapshot, history and the text of an out-of-memory error.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "neuron/runtime/memory_pool.h"
#include "neuron/runtime/memory_pool_impl.h"

namespace neuron {
namespace {

std::string size_text(int64_t bytes) {
  constexpr double kStep = 1024;
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  auto value = static_cast<double>(bytes) / kStep;
  size_t unit = 0;
  while (value >= kStep && unit + 1 < std::size(units)) {
    value /= kStep;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f %s", value, units[unit]);
  return text;
}

BlockSnapshot describe(const pool::Chunk& chunk) {
  using State = BlockSnapshot::State;
  if (chunk.free()) return {chunk.address, chunk.size, 0, State::kInactive};
  return {chunk.address, chunk.size, chunk.block->bytes(),
          chunk.block->live() ? State::kActive : State::kAwaitingFree};
}

}  // namespace

MemoryStats MemoryPool::stats() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->tally.report();
}

size_t MemoryPool::free_capacity() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->unreserved();
}

void MemoryPool::reset_peak_stats() {
  std::lock_guard lock(impl_->mutex);
  impl_->tally.reset_peaks();
}

void MemoryPool::reset_accumulated_stats() {
  std::lock_guard lock(impl_->mutex);
  impl_->tally.reset_accumulated();
}

std::vector<SegmentSnapshot> MemoryPool::snapshot() const {
  std::lock_guard lock(impl_->mutex);
  std::vector<SegmentSnapshot> result;
  for (const auto& segment : impl_->segments) {
    SegmentSnapshot& s = result.emplace_back();
    s.address = segment->address;
    s.size = segment->size;
    s.stream = segment->cache->stream;
    s.large = segment->kind == pool::Kind::kLarge;
    for (const pool::Chunk* chunk = segment->first; chunk != nullptr; chunk = chunk->after) {
      s.blocks.push_back(describe(*chunk));
    }
  }
  return result;
}

void MemoryPool::record_history(size_t max_entries,
                                std::function<std::shared_ptr<void>()> context) {
  pool::MemoryHistory::State state;  // then the old one, destroyed without the lock
  state.limit = max_entries;
  if (max_entries > 0 && context != nullptr) {
    state.recorder = std::make_shared<const pool::MemoryHistory::Recorder>(std::move(context));
  }
  std::lock_guard lock(impl_->mutex);
  impl_->history.exchange(state);
}

std::vector<MemoryEvent> MemoryPool::history() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->history.events();
}

void MemoryPool::Impl::Section::note(MemoryEvent::Action action, std::byte* address, size_t size,
                                     const Stream* stream, const pool::Context& context) noexcept {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  impl_.history.add({action, address, size, stream, time_ns, context}, retired_);
}

std::string MemoryPool::Impl::out_of_memory_text(size_t bytes) const {
  const MemoryStats stats = tally.report();
  const auto total = static_cast<int64_t>(capacity);
  const int64_t reserved = stats.reserved_bytes[0].current;
  const int64_t allocated = stats.allocated_bytes[0].current;
  const int64_t active = stats.active_bytes[0].current;
  int64_t largest = 0;
  for (const auto& segment : segments) {
    for (const pool::Chunk* c = segment->first; c != nullptr; c = c->after) {
      if (c->free()) largest = std::max(largest, static_cast<int64_t>(c->size));
    }
  }
  const std::string id = "neuron:" + std::to_string(device);
  std::string text = "Neuron OOM: requested_size=" + std::to_string(bytes) +
                     " total_hbm=" + std::to_string(capacity) + " (OOM). Tried to allocate " +
                     size_text(static_cast<int64_t>(std::min(bytes, SIZE_MAX / 2))) + " on " + id +
                     ", which has a total capacity of " + size_text(total) + ", of which " +
                     size_text(std::max<int64_t>(0, total - reserved)) + " is free. " +
                     size_text(allocated) + " is allocated by PyTorch, " +
                     size_text(active - allocated) + " is freed but still used by streams (" +
                     size_text(stats.foreign_bytes) +
                     " of both is memory adopted from the host), and " +
                     size_text(reserved - active) +
                     " is reserved but unallocated, in pieces of at most " + size_text(largest) +
                     ".";
  if (total - reserved >= static_cast<int64_t>(std::min(bytes, capacity)) && bytes <= capacity) {
    text += " The host has no memory left for this device.";
  } else if (reserved - active > total / 8) {
    text += " The reserved memory is fragmented, or belongs to other streams: fewer different "
            "sizes, or allocating the largest tensors first, help.";
  } else {
    text += " Smaller batches, freeing tensors that are no longer needed, or a larger "
            "TORCH_NEURONX_VIRTUAL_HBM_GB (the share of the host's memory bounds it) help.";
  }
  return text;
}

}  // namespace neuron
