// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/memory_pool_stats.h"

namespace neuron::pool {

MemoryStats MemoryTally::report() const {
  MemoryStats stats = scalars;
  const auto active = [](const Gauge& live, int64_t awaited, int64_t awaited_at_reset,
                         int64_t peak) {
    MemoryStat stat = live.report();
    stat.current += awaited;
    stat.peak = std::max(stat.peak, peak);
    stat.freed += awaited_at_reset - awaited;
    return stat;
  };
  for (size_t i = 0; i < 3; ++i) {
    const Row& row = rows_[i];
    stats.allocation[i] = row.blocks.report();
    stats.allocated_bytes[i] = row.bytes.report();
    stats.requested_bytes[i] = row.requested.report();
    stats.active[i] = active(row.blocks, row.awaited, row.awaited_at_reset, row.active_peak);
    stats.active_bytes[i] =
        active(row.bytes, row.awaited_bytes, row.awaited_bytes_at_reset, row.active_bytes_peak);
    stats.inactive_split[i] = row.pieces.report();
    stats.inactive_split_bytes[i] = row.piece_bytes.report();
    stats.segment[i] = row.segments.report();
    stats.reserved_bytes[i] = row.reserved.report();
  }
  return stats;
}

void MemoryTally::reset_peaks() {
  for (Row& row : rows_) {
    for (Gauge* gauge : {&row.blocks, &row.bytes, &row.requested, &row.pieces, &row.piece_bytes,
                         &row.segments, &row.reserved}) {
      gauge->peak = gauge->current;
    }
    row.active_peak = row.active_bytes_peak = 0;
    row.note_active_peaks();
  }
}

void MemoryTally::reset_accumulated() {
  for (Row& row : rows_) {
    for (Gauge* gauge : {&row.blocks, &row.bytes, &row.requested, &row.pieces, &row.piece_bytes,
                         &row.segments, &row.reserved}) {
      gauge->added = 0;
      gauge->current_at_reset = gauge->current;
    }
    row.awaited_at_reset = row.awaited;
    row.awaited_bytes_at_reset = row.awaited_bytes;
  }
  scalars.num_alloc_retries = 0;
  scalars.num_ooms = 0;
  scalars.num_sync_all_streams = 0;
  scalars.num_device_alloc = 0;
  scalars.num_device_free = 0;
}

}  // namespace neuron::pool
