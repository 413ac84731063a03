// SPDX-License-Identifier: Apache-2.0
//
// Cutter: where a stream's records are cut into windows, and which windows are worth a plan.
//
// Cuts are content-defined: a record ends a window if the fingerprints of it and the few records
// before it hash to a certain pattern. So the same code is cut at the same places in every
// iteration and in every identical layer, however fast the host records, and a change moves only
// the cuts next to it. Cuts follow host calls (which border kernels anyway) more often than other
// records. Where no cut comes, a window ends at kMaxRecords.
//
// The device prefers whole windows: while the host is recording it waits for the next cut, and when
// the host stalls it takes what is there. Somebody who waits for the stream takes everything. Host
// calls at the start of a window gain nothing from a plan and run at once.
//
// A window is planned when its sequence of fingerprints repeats; the first time it runs record by
// record. Not thread-safe.
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
  static constexpr size_t kMinRecords = 8;
  static constexpr size_t kMaxRecords = 256;

  // Why a window ends.
  static constexpr const char kCut[] = "Cut";                  // its content says so
  static constexpr const char kSize[] = "Size";                // kMaxRecords
  static constexpr const char kDrained[] = "Drained";          // everything must run
  static constexpr const char kHostStalled[] = "HostStalled";  // nothing was recorded for a while
  static constexpr const char kHostOp[] = "HostOp";            // a host call in front runs at once

  // How many of the records [begin, end) to run as one window. 0: more should come first; never if
  // `must_run`. `begin` is where the last window ended.
  size_t next(const Window& window, size_t begin, size_t end, bool must_run);

  // Why the last answer of `next` that was not 0 ends there: one of the constants above.
  const char* reason() const { return reason_; }

  // The window [begin, begin + count) will run now; true if its sequence was seen before.
  bool take(const Window& window, size_t begin, size_t count);

 private:
  using Clock = std::chrono::steady_clock;

  void scan(const Window& window, size_t begin, size_t end);

  struct Ahead {
    uint64_t fingerprint;
    bool cut;   // a window may end behind the record
    bool host;  // a host call
  };
  std::deque<Ahead> ahead_;            // scanned records that have not run
  std::array<uint64_t, 3> recent_{};   // fingerprints of the last records scanned
  size_t since_cut_ = 0;               // records taken since the last cut
  bool ends_at_cut_ = false;           // the last answer of `next`
  const char* reason_ = kCut;          // of the last answer of `next`
  Clock::time_point grown_at_{};       // when records came last
  std::array<uint64_t, 4096> seen_{};  // hashes of sequences, by their low bits
};

// What identifies an operation among repetitions: everything structural that is cheap to read.
uint64_t fingerprint(const OpRecord& record);

}  // namespace neuron
