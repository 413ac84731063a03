// SPDX-License-Identifier: Apache-2.0
//
// Block: one allocation as the rest of the system sees it. Its address interval is the identity of
// the tensor data in it.
//
// Ownership. A block is reference counted. The framework's storage holds one reference, taken by
// MemoryPool::allocate/adopt and given back by MemoryPool::free; every record that touches the block
// holds another until it has run. `free` makes the address range reusable in stream order at once
// (pool memory) or releases foreign memory when the timeline has passed; the Block object itself
// lives until the last record has dropped it. A new allocation is always a new Block object, even at
// the same address, so a record can tell "the tensor that was there" from "the one that is there".
//
// Poison. When an operation fails, its outputs are poisoned with the error; operations that read
// poison are skipped and pass it on. Guarded by a process-wide lock; `poisoned()` is a lock-free
// pre-check.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "neuron/base/error.h"

namespace neuron {

class MemoryPool;
class Stream;

namespace pool {
struct Chunk;
}

class Block {
 public:
  Block(MemoryPool* pool, std::byte* address, size_t bytes, Stream* stream)
      : address_(address), bytes_(bytes), pool_(pool), stream_(stream) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* address() const { return address_; }
  size_t bytes() const { return bytes_; }  // as requested, not as rounded
  MemoryPool* pool() const { return pool_; }
  Stream* stream() const { return stream_; }  // the stream whose order its reuse follows
  bool live() const { return live_.load(std::memory_order_acquire); }  // a storage still owns it

  uint32_t references() const { return references_.load(std::memory_order_acquire); }
  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  bool poisoned() const { return poisoned_.load(std::memory_order_acquire); }
  std::shared_ptr<const Error> poison() const;
  void set_poison(std::shared_ptr<const Error> error);  // nullptr clears

  // One pointer for the layer above (its alias of this memory); destroyed with the block by
  // `destroy_attachment`, which must be set before the first `attach`. Set once; returns the winner.
  void* attachment() const { return attachment_.load(std::memory_order_acquire); }
  void* attach(void* pointer);
  static void (*destroy_attachment)(void*);

 private:
  friend class MemoryPool;
  ~Block();

  std::byte* const address_;
  const size_t bytes_;
  MemoryPool* const pool_;
  Stream* const stream_;
  std::atomic<uint32_t> references_{1};
  std::atomic<bool> live_{true};
  std::atomic<bool> poisoned_{false};
  std::shared_ptr<const Error> poison_;  // guarded by the poison lock in block.cpp
  std::atomic<void*> attachment_{nullptr};

  // Of the pool, guarded by its lock.
  struct Timeline;                // memory_pool_impl.h
  pool::Chunk* chunk_ = nullptr;  // the range of pool memory; nullptr: adopted or given back
  Timeline* timeline_ = nullptr;  // what must pass before that; owned by the pool, may be nullptr
};

}  // namespace neuron
