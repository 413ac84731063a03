// SPDX-License-Identifier: Apache-2.0
//
// MemoryTally: the statistics of a memory pool, kept so that an allocation and its release touch
// few words. Guarded by the pool's lock.
//
// What follows from other figures is not kept: `freed` is what was allocated and is not there any
// more, and active memory is what storages hold plus what is awaited. The peak of active memory is
// at least that of allocated memory, so it needs attention only while something is awaited.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "neuron/runtime/memory_pool.h"
#include "neuron/runtime/memory_pool_chunks.h"

namespace neuron::pool {

class MemoryTally {
 public:
  void allocated(Kind kind, size_t chunk_bytes, size_t requested_bytes) noexcept {
    allocated_at(0, chunk_bytes, requested_bytes);
    allocated_at(index(kind), chunk_bytes, requested_bytes);
  }
  // A storage gave its block up, and with it the memory.
  void released(Kind kind, size_t chunk_bytes, size_t requested_bytes) noexcept {
    for (const size_t i : {size_t{0}, index(kind)}) {
      rows_[i].blocks.subtract(1);
      rows_[i].bytes.subtract(signed_of(chunk_bytes));
      rows_[i].requested.subtract(signed_of(requested_bytes));
    }
  }
  // A storage gave its block up: the memory is awaited until it is given back.
  void freed(Kind kind, size_t chunk_bytes) noexcept {
    freed_at(0, chunk_bytes);
    freed_at(index(kind), chunk_bytes);
  }
  void given_back(Kind kind, size_t chunk_bytes, size_t requested_bytes) noexcept {
    given_back_at(0, chunk_bytes, requested_bytes);
    given_back_at(index(kind), chunk_bytes, requested_bytes);
  }
  void pieces_changed(Kind kind, const PiecesChange& change) noexcept {
    for (const size_t i : {size_t{0}, index(kind)}) {
      if (change.count != 0) rows_[i].pieces.change(change.count);
      if (change.bytes != 0) rows_[i].piece_bytes.change(change.bytes);
    }
  }

  void segment_added(Kind kind, size_t bytes) noexcept {
    for (const size_t i : {size_t{0}, index(kind)}) {
      rows_[i].segments.add(1);
      rows_[i].reserved.add(signed_of(bytes));
    }
    ++scalars.num_device_alloc;
  }
  void segment_removed(Kind kind, size_t bytes) noexcept {
    for (const size_t i : {size_t{0}, index(kind)}) {
      rows_[i].segments.subtract(1);
      rows_[i].reserved.subtract(signed_of(bytes));
    }
    ++scalars.num_device_free;
  }

  // Adopted memory counts in no pool, and is reserved while it is active.
  void foreign_allocated(size_t bytes) noexcept {
    rows_[0].reserved.add(signed_of(bytes));
    allocated_at(0, bytes, bytes);
    scalars.foreign_bytes += signed_of(bytes);
  }
  void foreign_freed(size_t bytes) noexcept { freed_at(0, bytes); }
  void foreign_given_back(size_t bytes) noexcept {
    given_back_at(0, bytes, bytes);
    rows_[0].reserved.subtract(signed_of(bytes));
    scalars.foreign_bytes -= signed_of(bytes);
  }

  size_t reserved_bytes() const { return static_cast<size_t>(rows_[0].reserved.current); }
  MemoryStats report() const;
  void reset_peaks();
  void reset_accumulated();

  MemoryStats scalars;  // only its members without a peak are used

 private:
  struct Gauge {
    int64_t current = 0, peak = 0, added = 0;
    int64_t current_at_reset = 0;

    void add(int64_t n) noexcept {
      current += n;
      added += n;
      peak = std::max(peak, current);
    }
    void subtract(int64_t n) noexcept { current -= n; }
    void change(int64_t n) noexcept { n > 0 ? add(n) : subtract(-n); }
    MemoryStat report() const { return {current, peak, added, added - current + current_at_reset}; }
  };
  struct Row {
    Gauge blocks, bytes, requested;        // of live blocks; requested also of awaited ones
    Gauge pieces, piece_bytes;
    Gauge segments, reserved;
    int64_t awaited = 0, awaited_bytes = 0;
    int64_t active_peak = 0, active_bytes_peak = 0;  // while something was awaited
    int64_t awaited_at_reset = 0, awaited_bytes_at_reset = 0;

    void note_active_peaks() noexcept {
      active_peak = std::max(active_peak, blocks.current + awaited);
      active_bytes_peak = std::max(active_bytes_peak, bytes.current + awaited_bytes);
    }
  };

  static size_t index(Kind kind) { return static_cast<size_t>(kind); }
  static int64_t signed_of(size_t n) { return static_cast<int64_t>(n); }

  void allocated_at(size_t i, size_t chunk_bytes, size_t requested_bytes) noexcept {
    Row& row = rows_[i];
    row.blocks.add(1);
    row.bytes.add(signed_of(chunk_bytes));
    row.requested.add(signed_of(requested_bytes));
    if (row.awaited != 0) [[unlikely]] row.note_active_peaks();
  }
  void freed_at(size_t i, size_t chunk_bytes) noexcept {
    Row& row = rows_[i];
    row.blocks.subtract(1);
    row.bytes.subtract(signed_of(chunk_bytes));
    row.awaited += 1;
    row.awaited_bytes += signed_of(chunk_bytes);
  }
  void given_back_at(size_t i, size_t chunk_bytes, size_t requested_bytes) noexcept {
    Row& row = rows_[i];
    row.requested.subtract(signed_of(requested_bytes));
    row.awaited -= 1;
    row.awaited_bytes -= signed_of(chunk_bytes);
  }

  Row rows_[3];
};

}  // namespace neuron::pool
