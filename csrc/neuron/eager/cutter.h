// SPDX-License-Identifier: Apache-2.0
//
// Cutter: where a stream's records are cut into windows, and which windows are worth a plan.
//
// Cuts are content-defined. Every record has a rank, a hash of its fingerprint and of those of the
// few records before it; a window ends behind the record with the lowest rank among the kReach
// records before and after it. So the same code is cut at the same places in every iteration and in
// every identical layer, however fast the host records; a change moves only the cuts next to it;
// windows have some 2 * kReach records, and no luck with hashes makes them much shorter or longer.
// Host calls, which border kernels anyway, rank below all other records.
//
// Where a window ended because the program waited for it (a host read, an event), its end is
// remembered; at the second time it is a *boundary*, the lowest rank of all. Whoever reads a result
// every few steps so finds cuts there, and no window of the other steps reaches across. Of several
// such places close together (the last turns of a loop) the last one counts. Behind a boundary, as
// behind every wait, ranks begin anew, so that what follows is cut as at the program's start.
//
// This takes the place of caps that follow the load: windows whose length depends on how busy the
// device is would each need a plan and kernels of their own.
//
// The device prefers whole windows: while the host is recording it waits for the next cut, and when
// the host stalls it takes what is there. Somebody who waits for the stream takes everything. Host
// calls at the start of a window gain nothing from a plan and run at once.
//
// A window is planned when its sequence of fingerprints repeats; the first time it runs record by
// record. Not thread-safe.
//
//   if (size_t n = cutter.next(window, begin, end, must_run)) plan_it = cutter.take(window, begin,
//   n);
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "neuron/runtime/window.h"

namespace neuron {

class Cutter {
 public:
  static constexpr size_t kReach = 12;
  static constexpr size_t kMaxRecords = 256;
  static constexpr size_t kBoundaryContext = 32;  // records by which a boundary is known

  // How many of the records [begin, end) to run as one window. 0: more should come first; never if
  // `must_run`, which is null or the reason. `begin` is where the last window ended.
  size_t next(const Window& window, size_t begin, size_t end, const char* must_run);

  // Why the last answer of `next` that was not 0 ends there: of window_end.h, or `must_run`.
  const char* reason() const { return reason_; }

  // The window [begin, begin + count) will run now; true if its sequence was seen before.
  bool take(const Window& window, size_t begin, size_t count);

  // For policies that look further ahead than one window: reads the records, and then has the ends
  // of all windows that are certain, counted from `begin`.
  struct Cut {
    size_t end;
    bool boundary;  // no window reaches across
    const char* reason;
  };
  void scan(const Window& window, size_t begin, size_t end, const char* must_run);
  const std::deque<Cut>& cuts() const { return cuts_; }
  // Nothing was recorded for longer than a running program takes between two operations.
  bool host_stalled() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Record {
    uint64_t fingerprint;
    uint64_t context;  // hash of it and the kBoundaryContext - 1 records before
    uint64_t rank;     // 0: a boundary
    bool host;
  };

  void read(const OpRecord& record);
  void decide();
  bool lowest(size_t position) const;
  void end_here(const char* reason);

  // Positions count from `begin`, the first record that has not run. history_ records before it are
  // kept, since their ranks decide on later cuts.
  std::deque<Record> records_;
  size_t history_ = 0;
  const Record& at(ptrdiff_t position) const {
    return records_[static_cast<size_t>(position + static_cast<ptrdiff_t>(history_))];
  }
  size_t ahead() const { return records_.size() - history_; }

  std::deque<Cut> cuts_;    // decided, not reached yet
  ptrdiff_t decided_ = 0;   // records before it are known to end a window or not
  ptrdiff_t last_cut_ = 0;  // where the last decided cut is
  ptrdiff_t last_boundary_ = 0;
  const char* reason_ = "";
  std::array<uint64_t, kBoundaryContext> recent_{};  // fingerprints, a ring
  size_t scanned_ = 0;
  uint64_t context_ = 0;
  size_t since_boundary_ = 0;          // records scanned
  Clock::time_point grown_at_{};       // when records came last
  std::array<uint64_t, 4096> seen_{};  // hashes of sequences, by their low bits
  std::array<uint64_t, 512> ends_{};   // contexts where the program waited, likewise
  std::array<uint64_t, 512> boundaries_{};
};

// What identifies an operation among repetitions: everything structural that is cheap to read.
uint64_t fingerprint(const OpRecord& record);

}  // namespace neuron
