// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/memory_pool_chunks.h"

#include <algorithm>

namespace neuron::pool {
namespace {

// A granule of a small segment holds at most 64 chunks, one of a large segment one start.
constexpr unsigned granule_shift(Kind kind) { return kind == Kind::kSmall ? 14 : 20; }

}  // namespace

// ---- FreeLists ----------------------------------------------------------------------------------

Chunk* FreeLists::find(size_t size) const {
  const Position at = position(size);
  const auto column = static_cast<unsigned>(at.column);
  // Only a size that is no class can meet a chunk of its own range that is too small.
  for (Chunk* c = heads_[at.row][at.column]; c != nullptr; c = c->next_free) {
    if (c->size >= size) return c;
  }
  if (const unsigned above = columns_[at.row] & (0xFFFEu << column) & 0xFFFFu) {
    return heads_[at.row][static_cast<size_t>(std::countr_zero(above))];
  }
  const uint64_t rows = rows_ & (~uint64_t{1} << at.row);
  if (rows == 0) return nullptr;
  const auto row = static_cast<size_t>(std::countr_zero(rows));
  return heads_[row][static_cast<size_t>(std::countr_zero(columns_[row]))];
}

void FreeLists::insert(Chunk* chunk, Position at) noexcept {
  Chunk*& head = heads_[at.row][at.column];
  chunk->previous_free = nullptr;
  chunk->next_free = head;
  if (head != nullptr) head->previous_free = chunk;
  head = chunk;
  columns_[at.row] = static_cast<uint16_t>(columns_[at.row] | (1u << at.column));
  rows_ |= uint64_t{1} << at.row;
}

void FreeLists::remove(Chunk* chunk, Position at) noexcept {
  if (chunk->next_free != nullptr) chunk->next_free->previous_free = chunk->previous_free;
  if (chunk->previous_free != nullptr) {
    chunk->previous_free->next_free = chunk->next_free;
    return;
  }
  heads_[at.row][at.column] = chunk->next_free;
  if (chunk->next_free != nullptr) return;
  columns_[at.row] = static_cast<uint16_t>(columns_[at.row] & ~(1u << at.column));
  if (columns_[at.row] == 0) rows_ &= ~(uint64_t{1} << at.row);
}

void FreeLists::insert(Chunk* chunk) noexcept { insert(chunk, position(chunk->size)); }
void FreeLists::remove(Chunk* chunk) noexcept { remove(chunk, position(chunk->size)); }

void FreeLists::reshape(Chunk* chunk, std::byte* address, size_t size) noexcept {
  const Position from = position(chunk->size);
  const Position to = position(size);
  chunk->address = address;
  chunk->size = size;
  if (from.row == to.row && from.column == to.column) return;
  remove(chunk, from);
  insert(chunk, to);
}

// ---- ChunkArena ---------------------------------------------------------------------------------

void ChunkArena::grow() {
  batches_.push_back(std::make_unique<Chunk[]>(kBatch));
  for (size_t i = 0; i < kBatch; ++i) recycle(&batches_.back()[i]);
}

// ---- Segment ------------------------------------------------------------------------------------

Segment::Segment(std::byte* segment_address, size_t segment_size, Kind segment_kind,
                 StreamCache* segment_cache, Chunk* whole)
    : address(segment_address),
      size(segment_size),
      kind(segment_kind),
      cache(segment_cache),
      first(whole),
      granule_shift_(granule_shift(segment_kind)),
      starts_(((segment_size - 1) >> granule_shift_) + 1) {
  whole->address = address;
  whole->size = size;
  whole->segment = this;
  whole->before = whole->after = nullptr;
  starts_[0] = whole;
}

Chunk* Segment::chunk_at(const std::byte* where) const {
  size_t g = granule(where);
  while (starts_[g] == nullptr || starts_[g]->address > where) --g;  // the first chunk is in 0
  Chunk* chunk = starts_[g];
  while (chunk->after != nullptr && chunk->after->address <= where) chunk = chunk->after;
  return chunk;
}

// ---- Cutting and joining ------------------------------------------------------------------------

Chunk* take(Chunk* chunk, size_t size, Block* block, ChunkArena& arena, PiecesChange* change) {
  Segment* segment = chunk->segment;
  FreeLists& lists = segment->cache->of(segment->kind);
  const bool was_split = chunk->split();
  const size_t whole = chunk->size;
  if (whole - size < smallest_chunk(segment->kind)) {
    if (was_split) *change = {-1, -static_cast<int64_t>(whole)};
    lists.remove(chunk);
    chunk->block = block;
    return chunk;
  }
  Chunk* piece = arena.make();
  piece->address = chunk->address;
  piece->size = size;
  piece->segment = segment;
  piece->block = block;
  segment->chunk_disappears(chunk);
  piece->before = chunk->before;
  piece->after = chunk;
  (piece->before != nullptr ? piece->before->after : segment->first) = piece;
  chunk->before = piece;
  lists.reshape(chunk, chunk->address + size, whole - size);
  segment->chunk_starts(chunk);
  segment->chunk_starts(piece);
  *change = was_split ? PiecesChange{0, -static_cast<int64_t>(size)}
                      : PiecesChange{1, static_cast<int64_t>(whole - size)};
  return piece;
}

Chunk* release(Chunk* chunk, ChunkArena& arena, PiecesChange* change) noexcept {
  Segment* segment = chunk->segment;
  FreeLists& lists = segment->cache->of(segment->kind);
  Chunk* before = chunk->before != nullptr && chunk->before->free() ? chunk->before : nullptr;
  Chunk* after = chunk->after != nullptr && chunk->after->free() ? chunk->after : nullptr;
  // Free neighbours of `chunk` were pieces of a split segment.
  int64_t count = 0, bytes = 0;
  if (before != nullptr) --count, bytes -= static_cast<int64_t>(before->size);
  if (after != nullptr) --count, bytes -= static_cast<int64_t>(after->size);

  Chunk* result = chunk;
  if (after != nullptr) {  // grows downwards
    segment->chunk_disappears(chunk);
    segment->chunk_disappears(after);
    after->before = chunk->before;
    (after->before != nullptr ? after->before->after : segment->first) = after;
    lists.reshape(after, chunk->address, chunk->size + after->size);
    segment->chunk_starts(after);
    arena.recycle(chunk);
    result = after;
  }
  if (before != nullptr) {  // absorbs what follows it
    segment->chunk_disappears(result);
    if (after != nullptr) lists.remove(after);
    before->after = result->after;
    if (before->after != nullptr) before->after->before = before;
    lists.reshape(before, before->address, before->size + result->size);
    arena.recycle(result);
    result = before;
  }
  if (result == chunk) {
    chunk->block = nullptr;
    lists.insert(chunk);
  }
  if (result->split()) ++count, bytes += static_cast<int64_t>(result->size);
  *change = {count, bytes};
  return result;
}

// ---- SegmentIndex -------------------------------------------------------------------------------

Segment* SegmentIndex::insert(std::unique_ptr<Segment> segment) noexcept {
  const auto at = std::upper_bound(
      segments_.begin(), segments_.end(), segment->address,
      [](const std::byte* address, const auto& other) { return address < other->address; });
  return segments_.insert(at, std::move(segment))->get();
}

Segment* SegmentIndex::find(const std::byte* address) const {
  const auto after = std::upper_bound(
      segments_.begin(), segments_.end(), address,
      [](const std::byte* a, const auto& segment) { return a < segment->address; });
  if (after == segments_.begin()) return nullptr;
  Segment* segment = std::prev(after)->get();
  return address < segment->address + segment->size ? segment : nullptr;
}

}  // namespace neuron::pool
