// SPDX-License-Identifier: Apache-2.0
//
// MemoryPool: the stream-ordered caching allocator of one virtual core.
//
// Promise. `allocate` returns memory whose address is final. `free` makes the range reusable at
// once for later operations *of the same stream*, because they run after everything recorded so
// far; no wait, no device work. A block used on other streams (`record_stream`) becomes reusable
// when those streams have passed the point of the free. Memory that belongs to somebody else
// (`adopt`) is released when the block's stream and the recorded ones have passed that point.
//
// Structure. Segments come from the target; blocks are split from them and coalesced with free
// neighbours. Two pools: small (requests below 1 MiB, segments of 2 MiB) and large (segments of
// 20 MiB, or of the request's size above that; smaller when the capacity leaves no more). Requests
// below 16 MiB are rounded to size classes of at least 256 bytes, larger ones to 256 bytes; free
// lists are per stream. Addresses are aligned to 256 bytes. Allocating and freeing take constant
// time.
//
// Capacity. When a request does not fit, the pool, in this order: takes back what the timeline has
// released, asks `drain` to let the device finish what is queued, gives cached segments back, and
// only then throws kOutOfMemory with the documented text; it stays usable. A target that has no
// more memory is treated alike. A request above the capacity fails at once.
//
// Threading. Every member may be called from any thread. One mutex guards all state; it is never
// held while foreign memory is released, `drain` runs, or a history context is captured or
// destroyed. Nothing here takes the GIL. `allocate` and `adopt` may drain, so a thread that
// executes records must not call them.
//
// Lifetime. Streams outlive their use by the pool; the pool outlives its blocks. When the pool is
// destroyed, everything queued has run: foreign memory that was still awaited is released.
//
//   Block* block = pool.allocate(bytes, stream);   // one reference, owned by the caller's storage
//   ...
//   pool.free(block);                              // in the storage's deleter
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "neuron/runtime/block.h"

namespace neuron {

class Stream;
class Target;

// Counters in the vocabulary of c10::CachingDeviceAllocator. Index 0: all, 1: small, 2: large pool.
// Adopted memory belongs to no pool: it counts under 0 only, and is reserved while it is active.
struct MemoryStat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};

struct MemoryStats {
  MemoryStat allocation[3];            // blocks held by storages
  MemoryStat segment[3];               // segments held
  MemoryStat active[3];                // blocks held or still awaited by a stream
  MemoryStat inactive_split[3];        // free pieces of split segments
  MemoryStat allocated_bytes[3];
  MemoryStat reserved_bytes[3];
  MemoryStat active_bytes[3];
  MemoryStat inactive_split_bytes[3];
  MemoryStat requested_bytes[3];
  int64_t num_alloc_retries = 0;
  int64_t num_ooms = 0;
  int64_t num_sync_all_streams = 0;
  int64_t num_device_alloc = 0;
  int64_t num_device_free = 0;
  int64_t foreign_bytes = 0;           // adopted memory that has not been released
};

struct BlockSnapshot {
  std::byte* address;
  size_t size;            // as rounded
  size_t requested_size;  // 0 for a free piece
  enum class State { kActive, kAwaitingFree, kInactive } state;
};

struct SegmentSnapshot {
  std::byte* address;
  size_t size;
  const Stream* stream;
  bool large;
  std::vector<BlockSnapshot> blocks;  // in address order, covering the segment
};

struct MemoryEvent {
  enum class Action { kAlloc, kFreeRequested, kFreeCompleted, kSegmentAlloc, kSegmentFree, kOom };
  Action action;
  std::byte* address;
  size_t size;
  const Stream* stream;
  int64_t time_ns;                // since the epoch
  std::shared_ptr<void> context;  // from the context recorder, see `record_history`
};

class MemoryPool {
 public:
  // `capacity` in bytes. `drain` must return when everything recorded on the device so far has run.
  MemoryPool(Target& target, int device, size_t capacity, std::function<void()> drain);
  ~MemoryPool();

  // Zero bytes give a block with a unique, valid address. Throws kOutOfMemory.
  Block* allocate(size_t bytes, Stream* stream);
  // `release` runs at most once, on any thread, never under the pool's lock; it must not wait.
  // Counts towards the capacity; throws kOutOfMemory (and does not call `release`) beyond it.
  Block* adopt(void* address, size_t bytes, Stream* stream, std::function<void()> release);
  // Gives back the storage's reference. Never waits, never throws.
  void free(Block* block) noexcept;
  // The block, which a storage still owns, is used on `stream` as well.
  void record_stream(Block* block, Stream* stream);

  // The block that a storage owns and whose address range holds `address`, or nullptr; `retain`ed
  // for the caller. Of adopted ranges that overlap, one that holds the address.
  Block* find(const void* address);

  // Takes back what the timeline has released; called by `allocate` and after synchronisation.
  void reclaim() noexcept;
  // Returns unused segments to the target (after reclaim). Segments with work pending stay.
  void empty_cache();

  size_t capacity() const { return capacity_; }
  size_t free_capacity() const;  // capacity minus reserved bytes
  MemoryStats stats() const;
  void reset_peak_stats();
  void reset_accumulated_stats();

  std::vector<SegmentSnapshot> snapshot() const;
  // Forgets the history and keeps the last `max_entries` events from now on (0: off). Allocations,
  // new segments and failures carry what `context` returned; it is called on the allocating thread
  // outside the lock and may be empty.
  void record_history(size_t max_entries, std::function<std::shared_ptr<void>()> context);
  std::vector<MemoryEvent> history() const;

 private:
  struct Impl;

  void make_room();
  [[noreturn]] void throw_out_of_memory(size_t bytes, Stream* stream,
                                        const std::shared_ptr<void>& context);

  const size_t capacity_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace neuron
