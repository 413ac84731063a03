// SPDX-License-Identifier: Apache-2.0
//
// The address ranges of the memory pool: segments from the target, the chunks that they are cut
// into, and the free lists that find a chunk of some size in constant time.
//
// Chunks of a segment form a list in address order and cover it; no two neighbours are both free
// (`release` coalesces). Free chunks are in the lists of their segment's stream and kind.
// Everything here is guarded by the pool's lock, and what runs under `noexcept` allocates nothing.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace neuron {
class Block;
class Stream;
}  // namespace neuron

namespace neuron::pool {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;
inline constexpr size_t kAlignment = 256;          // of chunks: addresses and sizes
inline constexpr size_t kPage = 4 * kKiB;          // of segments
inline constexpr size_t kLargeRequest = 1 * kMiB;  // smaller ones go to the small pool
inline constexpr size_t kUnclassed = 16 * kMiB;    // requests from here on are in no size class
inline constexpr size_t kSmallSegment = 2 * kMiB;
inline constexpr size_t kLargeSegment = 20 * kMiB;
inline constexpr size_t kHugePage = 2 * kMiB;      // granularity of segments above kLargeSegment

constexpr size_t round_up(size_t n, size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// The indices that MemoryStats uses.
enum class Kind : uint8_t { kSmall = 1, kLarge = 2 };
constexpr Kind kind_of_request(size_t bytes) {
  return bytes < kLargeRequest ? Kind::kSmall : Kind::kLarge;
}
// What is left of a chunk stays part of it below this size: it could serve no request of its pool.
constexpr size_t smallest_chunk(Kind kind) {
  return kind == Kind::kSmall ? kAlignment : kLargeRequest;
}

// The step between neighbouring size classes at `units`, as a power of two: 16 classes from one
// power of two to the next.
inline constexpr unsigned kClassBits = 4;
constexpr unsigned class_shift(size_t units) {
  const auto width = static_cast<unsigned>(std::bit_width(units));
  return width <= kClassBits + 1 ? 0 : width - kClassBits - 1;
}
// The size of the chunk that serves a request.
constexpr size_t round_request(size_t bytes) {
  const size_t units = bytes == 0 ? 1 : (bytes + kAlignment - 1) / kAlignment;
  if (bytes >= kUnclassed) return units * kAlignment;
  const unsigned shift = class_shift(units);
  return ((((units - 1) >> shift) + 1) << shift) * kAlignment;
}

struct Segment;

struct Chunk {
  std::byte* address = nullptr;
  size_t size = 0;
  Segment* segment = nullptr;
  Chunk* before = nullptr;         // neighbours in the segment
  Chunk* after = nullptr;
  Chunk* previous_free = nullptr;  // in its free list
  Chunk* next_free = nullptr;
  Block* block = nullptr;          // nullptr: free

  bool free() const { return block == nullptr; }
  bool split() const { return before != nullptr || after != nullptr; }
};

// Free chunks by size: lists for 16 size ranges per power of two, found through two levels of bit
// maps. Every size class is the lower end of a range, so any chunk of its list serves it.
class FreeLists {
 public:
  static constexpr size_t kLargestChunk = size_t{1} << 44;

  // A chunk of at least `size` bytes, or nullptr; it stays in its list.
  Chunk* find(size_t size) const;
  void insert(Chunk* chunk) noexcept;
  void remove(Chunk* chunk) noexcept;
  // The chunk, which is in a list, becomes [address, address + size).
  void reshape(Chunk* chunk, std::byte* address, size_t size) noexcept;

 private:
  static constexpr size_t kRows = 34;  // row 0: below 16 units; row r: from 2^(r+3) units
  struct Position {
    size_t row, column;
  };
  static Position position(size_t size) {
    const size_t units = size / kAlignment;
    if (units < 16) return {0, units};
    const unsigned shift = class_shift(units);
    return {shift + 1, (units >> shift) & 15};
  }
  void insert(Chunk* chunk, Position at) noexcept;
  void remove(Chunk* chunk, Position at) noexcept;

  uint64_t rows_ = 0;                        // rows with a chunk
  std::array<uint16_t, kRows> columns_{};    // lists of a row with a chunk
  std::array<std::array<Chunk*, 16>, kRows> heads_{};
};

// What the pool keeps for one stream.
struct StreamCache {
  Stream* stream = nullptr;
  FreeLists lists[2];

  FreeLists& of(Kind kind) { return lists[static_cast<size_t>(kind) - 1]; }
};

// Chunk objects; they are recycled and freed with the pool.
class ChunkArena {
 public:
  Chunk* make() {
    if (free_ == nullptr) [[unlikely]] grow();
    Chunk* chunk = free_;
    free_ = chunk->next_free;
    return chunk;
  }
  void recycle(Chunk* chunk) noexcept {
    chunk->block = nullptr;
    chunk->next_free = free_;
    free_ = chunk;
  }

 private:
  void grow();

  static constexpr size_t kBatch = 128;
  std::vector<std::unique_ptr<Chunk[]>> batches_;
  Chunk* free_ = nullptr;  // linked by next_free
};

// Memory from the target, cut into chunks.
struct Segment {
  Segment(std::byte* address, size_t size, Kind kind, StreamCache* cache, Chunk* whole);

  std::byte* const address;
  const size_t size;
  const Kind kind;
  StreamCache* const cache;
  Chunk* first;             // chunk in address order
  uint64_t idle_value = 0;  // the stream's `submitted()` when the last chunk became free

  bool idle() const { return first->after == nullptr && first->free(); }
  Chunk* chunk_at(const std::byte* where) const;

  // Called when the chunk's address is set and its neighbours are linked.
  void chunk_starts(Chunk* chunk) noexcept {
    Chunk*& start = starts_[granule(chunk->address)];
    if (start == nullptr || start->address >= chunk->address) start = chunk;
  }
  // Called before the chunk's address or links change.
  void chunk_disappears(Chunk* chunk) noexcept {
    const size_t g = granule(chunk->address);
    if (starts_[g] != chunk) return;
    Chunk* next = chunk->after;
    starts_[g] = next != nullptr && granule(next->address) == g ? next : nullptr;
  }

 private:
  size_t granule(const std::byte* where) const {
    return static_cast<size_t>(where - address) >> granule_shift_;
  }
  const unsigned granule_shift_;
  std::vector<Chunk*> starts_;  // the first chunk that starts in a granule, or nullptr
};

// The free pieces of split segments before and after a change, for the statistics.
struct PiecesChange {
  int64_t count = 0;
  int64_t bytes = 0;
};

// Cuts `size` bytes from the beginning of a chunk that is in its free list. The result is in no
// list and belongs to `block`.
Chunk* take(Chunk* chunk, size_t size, Block* block, ChunkArena& arena, PiecesChange* change);
// Makes a chunk free and joins it with free neighbours; returns the chunk that holds it now.
Chunk* release(Chunk* chunk, ChunkArena& arena, PiecesChange* change) noexcept;

// All segments, in address order.
class SegmentIndex {
 public:
  // `insert` allocates nothing after `reserve(1)`.
  void reserve(size_t more) { segments_.reserve(segments_.size() + more); }
  Segment* insert(std::unique_ptr<Segment> segment) noexcept;
  Segment* find(const std::byte* address) const;

  // Removes the segments for which `predicate` is true; it must have taken them apart.
  template <typename Predicate>
  void erase_if(Predicate predicate) noexcept {
    std::erase_if(segments_, [&](const auto& segment) { return predicate(*segment); });
  }

  auto begin() const { return segments_.begin(); }
  auto end() const { return segments_.end(); }

 private:
  std::vector<std::unique_ptr<Segment>> segments_;
};

}  // namespace neuron::pool
