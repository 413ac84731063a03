// SPDX-License-Identifier: Apache-2.0
//
// The state of a MemoryPool and the scope in which its lock is held. Internal to memory_pool*.cpp.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "neuron/runtime/memory_pool.h"
#include "neuron/runtime/memory_pool_chunks.h"
#include "neuron/runtime/memory_pool_history.h"
#include "neuron/runtime/memory_pool_stats.h"

namespace neuron {

// What must pass before a freed block's memory is given back. Exists for adopted memory and for
// pool memory that other streams used; destroyed with the release of the memory.
struct Block::Timeline {
  struct Point {
    Stream* stream;
    uint64_t value;  // set by `free`
  };
  // Streams beside the one whose order the block's reuse follows; for adopted memory that as well.
  std::vector<Point> points;
  Block* next_awaited = nullptr;

  bool passed() const;

  std::function<void()> release;                             // adopted memory
  std::multimap<const std::byte*, Block*>::iterator index;   // adopted memory: in `foreign`
  bool overlapping = false;                                  // adopted memory: see `foreign`
};

struct MemoryPool::Impl {
  Impl(Target& pool_target, int pool_device, size_t pool_capacity, std::function<void()> pool_drain)
      : target(pool_target),
        device(pool_device),
        capacity(pool_capacity),
        drain(std::move(pool_drain)) {}
  ~Impl();

  // The critical section of one operation. What must not happen under the lock is collected and
  // done right after: foreign memory is released, contexts of old events are destroyed.
  class Section {
   public:
    explicit Section(Impl& impl) : impl_(impl) { impl_.mutex.lock(); }
    ~Section() {
      impl_.mutex.unlock();
      if (released_ != nullptr) [[unlikely]] release_now();
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

    // Takes over a reference to the block.
    void release_later(Block* block) noexcept {
      block->timeline_->next_awaited = released_;
      released_ = block;
    }
    void event(MemoryEvent::Action action, std::byte* address, size_t size, const Stream* stream,
               const pool::Context& context = nullptr) noexcept {
      if (impl_.history.on()) [[unlikely]] note(action, address, size, stream, context);
    }

   private:
    void release_now() noexcept;
    void note(MemoryEvent::Action action, std::byte* address, size_t size, const Stream* stream,
              const pool::Context& context) noexcept;

    Impl& impl_;
    Block* released_ = nullptr;
    std::vector<pool::Context> retired_;
  };

  struct Request {
    size_t bytes;
    size_t rounded;
    pool::Kind kind;
    Stream* stream;
    MemoryPool* owner;
    void* storage;  // for the Block object
    const pool::Context& context;
  };

  pool::StreamCache& cache(Stream* stream) {
    if (last_cache != nullptr && last_cache->stream == stream) [[likely]] return *last_cache;
    return other_cache(stream);
  }
  pool::StreamCache& other_cache(Stream* stream);
  Block* allocate_cached(const Request& request, Section& section);
  Block* allocate_segment(const Request& request, Section& section);
  Block* finish(const Request& request, pool::Chunk* free_chunk, Section& section);
  bool adopt(Block* block, const pool::Context& context, Section& section);

  // Gives back the memory of awaited blocks whose points have passed: from the front of the list up
  // to the first that has not, or all.
  void reclaim_front(Section& section) noexcept {
    while (first_awaited != nullptr && first_awaited->timeline_->passed()) [[unlikely]] {
      give_back_first(section);
    }
  }
  void reclaim_all(Section& section) noexcept;
  void give_back_first(Section& section) noexcept;
  void give_back_awaited(Block* block, Section& section) noexcept;
  void give_back_chunk(Block* block, Section& section) noexcept;
  void await(Block* block) noexcept;
  void release_idle_segments(Section& section) noexcept;

  Block* find_foreign(const std::byte* address) const;
  size_t unreserved() const { return capacity - std::min(capacity, tally.reserved_bytes()); }
  std::string out_of_memory_text(size_t bytes) const;

  Target& target;
  const int device;
  const size_t capacity;
  const std::function<void()> drain;

  mutable std::mutex mutex;  // guards everything below
  pool::MemoryTally tally;
  std::unordered_map<Stream*, std::unique_ptr<pool::StreamCache>> caches;
  pool::StreamCache* last_cache = nullptr;
  pool::ChunkArena chunks;
  pool::SegmentIndex segments;
  // Freed blocks whose memory waits for a stream, oldest first; each holds its storage's reference.
  Block* first_awaited = nullptr;
  Block* last_awaited = nullptr;
  // Adopted memory that storages hold, by address. Ranges may overlap; while `overlaps` is zero
  // none do, and the neighbour below an address decides.
  std::multimap<const std::byte*, Block*> foreign;
  size_t overlaps = 0;
  pool::MemoryHistory history;
};

}  // namespace neuron
