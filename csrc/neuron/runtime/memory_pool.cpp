// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/memory_pool.h"

#include <algorithm>
#include <new>
#include <utility>

#include "neuron/runtime/memory_pool_impl.h"
#include "neuron/runtime/stream.h"
#include "neuron/target/target.h"
#include "neuron/trace/counters.h"

namespace neuron {

using pool::Chunk;
using pool::Context;
using pool::Kind;
using pool::Segment;
using pool::StreamCache;
using Action = MemoryEvent::Action;

MemoryPool::MemoryPool(Target& target, int device, size_t capacity, std::function<void()> drain)
    : capacity_(capacity),
      impl_(std::make_unique<Impl>(target, device, capacity, std::move(drain))) {
  NEURON_CHECK(capacity <= pool::FreeLists::kLargestChunk);
}

MemoryPool::~MemoryPool() = default;

// ---- Allocation ---------------------------------------------------------------------------------

Block* MemoryPool::allocate(size_t bytes, Stream* stream) {
  Impl& impl = *impl_;
  Context context = impl.history.on() ? impl.history.capture(impl.mutex) : nullptr;
  if (bytes <= capacity_) [[likely]] {
    struct Storage {
      void* memory = ::operator new(sizeof(Block));
      ~Storage() { ::operator delete(memory); }
    } storage;
    const Impl::Request request{bytes,  pool::round_request(bytes), pool::kind_of_request(bytes),
                                stream, this, storage.memory, context};
    const auto attempt = [&](bool more) -> Block* {
      Impl::Section section(impl);
      if (more) impl.release_idle_segments(section);
      impl.reclaim_front(section);
      Block* block = impl.allocate_cached(request, section);
      if (block == nullptr) [[unlikely]] {
        impl.reclaim_all(section);
        block = impl.allocate_cached(request, section);
        if (block == nullptr) block = impl.allocate_segment(request, section);
      }
      if (block != nullptr) storage.memory = nullptr;
      return block;
    };
    if (Block* block = attempt(false)) [[likely]] return block;
    make_room();
    if (Block* block = attempt(false)) return block;
    if (Block* block = attempt(true)) return block;
  }
  throw_out_of_memory(bytes, stream, context);
}

Block* MemoryPool::adopt(void* address, size_t bytes, Stream* stream,
                         std::function<void()> release) {
  if (address == nullptr && bytes != 0) {
    throw Error(ErrorCode::kInvalidArgument, "cannot adopt memory at a null address");
  }
  Impl& impl = *impl_;
  Context context = impl.history.on() ? impl.history.capture(impl.mutex) : nullptr;
  if (bytes <= capacity_) {
    auto timeline = std::make_unique<Block::Timeline>();
    timeline->points.push_back({stream, 0});
    timeline->release = std::move(release);
    auto destroy = [](Block* b) { delete b; };
    std::unique_ptr<Block, decltype(destroy)> block(
        new Block(this, static_cast<std::byte*>(address), bytes, stream));
    block->timeline_ = timeline.get();
    const auto attempt = [&](bool more) {
      Impl::Section section(impl);
      if (more) impl.release_idle_segments(section);
      impl.reclaim_front(section);
      return impl.adopt(block.get(), context, section);
    };
    bool adopted = attempt(false);
    if (!adopted) {
      make_room();
      adopted = attempt(false) || attempt(true);
    }
    if (adopted) {
      timeline.release();  // the block's from here on
      return block.release();
    }
  }
  throw_out_of_memory(bytes, stream, context);
}

// Lets the device finish what is queued and takes back what that releases.
void MemoryPool::make_room() {
  static Counter& retries = counter("Memory.AllocRetries");
  retries.add();
  impl_->drain();
  Impl::Section section(*impl_);
  ++impl_->tally.scalars.num_alloc_retries;
  ++impl_->tally.scalars.num_sync_all_streams;
  impl_->reclaim_all(section);
}

void MemoryPool::throw_out_of_memory(size_t bytes, Stream* stream, const Context& context) {
  static Counter& ooms = counter("Memory.OutOfMemory");
  ooms.add();
  std::string text;
  {
    Impl::Section section(*impl_);
    ++impl_->tally.scalars.num_ooms;
    section.event(Action::kOom, nullptr, bytes, stream, context);
    text = impl_->out_of_memory_text(bytes);
  }
  throw Error(ErrorCode::kOutOfMemory, std::move(text));
}

StreamCache& MemoryPool::Impl::other_cache(Stream* stream) {
  auto& slot = caches[stream];
  if (slot == nullptr) {
    slot = std::make_unique<StreamCache>();
    slot->stream = stream;
  }
  last_cache = slot.get();
  return *last_cache;
}

Block* MemoryPool::Impl::allocate_cached(const Request& request, Section& section) {
  Chunk* chunk = cache(request.stream).of(request.kind).find(request.rounded);
  return chunk != nullptr ? finish(request, chunk, section) : nullptr;
}

Block* MemoryPool::Impl::allocate_segment(const Request& request, Section& section) {
  const size_t need = pool::round_up(request.rounded, pool::kPage);
  const size_t available = unreserved() / pool::kPage * pool::kPage;
  if (need > available) return nullptr;
  size_t size = request.kind == Kind::kSmall ? pool::kSmallSegment : pool::kLargeSegment;
  if (need > size) size = pool::round_up(need, pool::kHugePage);
  size = std::min(size, available);

  // Everything that may throw comes before the segment exists.
  StreamCache& stream_cache = cache(request.stream);
  Chunk* whole = chunks.make();
  void* address = nullptr;
  try {
    segments.reserve(1);
    address = target.allocate_segment(device, size);
    if (address == nullptr && size > need) {
      size = need;
      address = target.allocate_segment(device, size);
    }
    if (address != nullptr) {
      segments.insert(std::make_unique<Segment>(static_cast<std::byte*>(address), size,
                                                request.kind, &stream_cache, whole));
    }
  } catch (...) {
    if (address != nullptr) target.free_segment(device, address, size);
    chunks.recycle(whole);
    throw;
  }
  if (address == nullptr) {
    chunks.recycle(whole);
    return nullptr;
  }
  stream_cache.of(request.kind).insert(whole);
  tally.segment_added(request.kind, size);
  section.event(Action::kSegmentAlloc, static_cast<std::byte*>(address), size, request.stream,
                request.context);
  return finish(request, whole, section);
}

Block* MemoryPool::Impl::finish(const Request& request, Chunk* free_chunk, Section& section) {
  pool::PiecesChange pieces;
  Block* storage = static_cast<Block*>(request.storage);
  Chunk* chunk = pool::take(free_chunk, request.rounded, storage, chunks, &pieces);
  Block* block = new (storage) Block(request.owner, chunk->address, request.bytes, request.stream);
  block->chunk_ = chunk;

  tally.allocated(request.kind, chunk->size, request.bytes);
  tally.pieces_changed(request.kind, pieces);
  section.event(Action::kAlloc, chunk->address, chunk->size, request.stream, request.context);
  return block;
}

bool MemoryPool::Impl::adopt(Block* block, const Context& context, Section& section) {
  const size_t bytes = block->bytes();
  if (bytes > unreserved()) {
    reclaim_all(section);
    if (bytes > unreserved()) return false;
  }
  Block::Timeline& timeline = *block->timeline_;
  const std::byte* begin = block->address();
  const auto after = foreign.upper_bound(begin);
  timeline.overlapping = overlaps > 0 ||
                         (after != foreign.end() && after->first < begin + bytes) ||
                         find_foreign(begin) != nullptr;
  timeline.index = foreign.emplace_hint(after, begin, block);
  if (timeline.overlapping) ++overlaps;

  tally.foreign_allocated(bytes);
  section.event(Action::kAlloc, block->address(), bytes, block->stream(), context);
  return true;
}

// ---- Giving back --------------------------------------------------------------------------------

void MemoryPool::free(Block* block) noexcept {
  Impl& impl = *impl_;
  bool awaited = false;  // the storage's reference went to the pool
  {
    Impl::Section section(impl);
    Block::Timeline* const timeline = block->timeline_;
    block->live_.store(false, std::memory_order_release);
    if (Chunk* chunk = block->chunk_; chunk != nullptr && timeline == nullptr) [[likely]] {
      section.event(Action::kFreeRequested, chunk->address, chunk->size, block->stream_);
      impl.tally.released(chunk->segment->kind, chunk->size, block->bytes_);
      impl.give_back_chunk(block, section);
    } else {
      awaited = true;
      if (chunk != nullptr) {
        section.event(Action::kFreeRequested, chunk->address, chunk->size, block->stream_);
        impl.tally.freed(chunk->segment->kind, chunk->size);
      } else {
        section.event(Action::kFreeRequested, block->address_, block->bytes_, block->stream_);
        impl.tally.foreign_freed(block->bytes_);
        impl.foreign.erase(timeline->index);
        if (timeline->overlapping) --impl.overlaps;
      }
      for (auto& point : timeline->points) point.value = point.stream->submitted();
      if (timeline->passed()) {
        impl.give_back_awaited(block, section);
      } else {
        impl.await(block);
      }
    }
  }
  if (!awaited) block->release();
}

void MemoryPool::record_stream(Block* block, Stream* stream) {
  std::lock_guard lock(impl_->mutex);
  if (stream == block->stream_ || !block->live()) return;
  if (block->timeline_ == nullptr) block->timeline_ = new Block::Timeline;
  auto& points = block->timeline_->points;
  for (const auto& point : points) {
    if (point.stream == stream) return;
  }
  points.push_back({stream, 0});
}

void MemoryPool::Impl::await(Block* block) noexcept {
  block->timeline_->next_awaited = nullptr;
  (last_awaited != nullptr ? last_awaited->timeline_->next_awaited : first_awaited) = block;
  last_awaited = block;
}

void MemoryPool::Impl::give_back_chunk(Block* block, Section& section) noexcept {
  Chunk* chunk = std::exchange(block->chunk_, nullptr);
  Segment* segment = chunk->segment;
  section.event(Action::kFreeCompleted, chunk->address, chunk->size, block->stream_);
  pool::PiecesChange pieces;
  if (!pool::release(chunk, chunks, &pieces)->split()) {
    segment->idle_value = block->stream_->submitted();
  }
  tally.pieces_changed(segment->kind, pieces);
}

// Takes over the storage's reference.
void MemoryPool::Impl::give_back_awaited(Block* block, Section& section) noexcept {
  if (const Chunk* chunk = block->chunk_) {
    tally.given_back(chunk->segment->kind, chunk->size, block->bytes_);
    give_back_chunk(block, section);
  } else {
    tally.foreign_given_back(block->bytes_);
    section.event(Action::kFreeCompleted, block->address_, block->bytes_, block->stream_);
  }
  section.release_later(block);
}

void MemoryPool::Impl::give_back_first(Section& section) noexcept {
  Block* block = first_awaited;
  first_awaited = block->timeline_->next_awaited;
  if (first_awaited == nullptr) last_awaited = nullptr;
  give_back_awaited(block, section);
}

bool Block::Timeline::passed() const {
  return std::all_of(points.begin(), points.end(), [](const Point& point) {
    return point.stream->completed() >= point.value;
  });
}

void MemoryPool::Impl::reclaim_all(Section& section) noexcept {
  Block* next = std::exchange(first_awaited, nullptr);
  last_awaited = nullptr;
  while (next != nullptr) {
    Block* block = next;
    next = block->timeline_->next_awaited;
    if (block->timeline_->passed()) {
      give_back_awaited(block, section);
    } else {
      await(block);
    }
  }
}

void MemoryPool::Impl::Section::release_now() noexcept {
  while (released_ != nullptr) {
    Block* block = released_;
    const std::unique_ptr<Block::Timeline> timeline(std::exchange(block->timeline_, nullptr));
    released_ = timeline->next_awaited;
    try {
      if (timeline->release) timeline->release();
    } catch (...) {  // the memory's former owner failed; nobody is left to tell
      static Counter& failed = counter("Memory.ForeignReleaseFailed");
      failed.add();
    }
    block->release();
  }
}

void MemoryPool::reclaim() noexcept {
  Impl::Section section(*impl_);
  impl_->reclaim_all(section);
}

void MemoryPool::Impl::release_idle_segments(Section& section) noexcept {
  segments.erase_if([&](Segment& segment) {
    if (!segment.idle() || segment.cache->stream->completed() < segment.idle_value) return false;
    segment.cache->of(segment.kind).remove(segment.first);
    chunks.recycle(segment.first);
    target.free_segment(device, segment.address, segment.size);
    tally.segment_removed(segment.kind, segment.size);
    section.event(Action::kSegmentFree, segment.address, segment.size, segment.cache->stream);
    return true;
  });
}

void MemoryPool::empty_cache() {
  Impl::Section section(*impl_);
  impl_->reclaim_all(section);
  impl_->release_idle_segments(section);
}

// The pool ends when its device does: everything queued has run, and the streams may be gone.
MemoryPool::Impl::~Impl() {
  {
    Section section(*this);
    while (first_awaited != nullptr) {
      Block* block = std::exchange(first_awaited, first_awaited->timeline_->next_awaited);
      section.release_later(block);
    }
  }
  for (const auto& segment : segments) {
    target.free_segment(device, segment->address, segment->size);
  }
}

// ---- Looking up ---------------------------------------------------------------------------------

Block* MemoryPool::find(const void* address) {
  const auto* where = static_cast<const std::byte*>(address);
  std::lock_guard lock(impl_->mutex);
  Block* block = nullptr;
  if (const Segment* segment = impl_->segments.find(where)) {
    block = segment->chunk_at(where)->block;
    // Beyond the requested bytes is padding; an empty block is found by its address.
    if (block != nullptr && (!block->live() || (where - block->address_ >=
                                                static_cast<ptrdiff_t>(std::max<size_t>(
                                                    block->bytes_, 1))))) {
      block = nullptr;
    }
  } else {
    block = impl_->find_foreign(where);
  }
  if (block != nullptr) block->retain();
  return block;
}

Block* MemoryPool::Impl::find_foreign(const std::byte* address) const {
  auto candidate = foreign.upper_bound(address);
  while (candidate != foreign.begin()) {
    --candidate;
    Block* block = candidate->second;
    if (address < block->address() + block->bytes()) return block;
    if (overlaps == 0) break;
  }
  return nullptr;
}

}  // namespace neuron
