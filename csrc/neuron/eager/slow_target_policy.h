// SPDX-License-Identifier: Apache-2.0
//
// SlowTargetPolicy: what to compile, and what to launch, on a target whose compiler takes seconds
// and whose launches cost (eager/emulated_target.h; the strategy is that of any such target).
//
// The stream is cut into *pieces* by content (eager/cutter.h), some 25 operations each. The queue
// usually holds several steps that wait for compiles, and everything in it is requested in the
// order of its first need, side by side; identical layers are the same piece.
//
//   First   A piece is covered in the way that takes less compile time: as one executable, or by
//           those of its operations that have none yet. Compilers have a price per call, so nearly
//           always the piece wins: a step in ten pieces costs 10 BASE + N PER_OP, its D distinct
//           operations alone D (BASE + PER_OP), and then N launches a step. When pieces that did
//           not come back have cost twice what all operations alone would, the program is one that
//           does not repeat: new pieces then run by single operations.
//   Then    Pieces or longer sequences that run one after the other again and again become one
//           executable, in the background, pair by pair and up to the next boundary (a place where
//           the program waits): launches halve each time, towards one a step.
//   Spare   Operations of several pieces are compiled alone while nothing else is to do, so that a
//           program that changes finds something that runs.
//
// What runs is the longest sequence that is ready. While the host records and a longer one may
// follow, it is collected first; when the host goes another way the matched part runs. Nothing runs
// without its executable: a stream that must run waits for it.
//
// Belongs to one stream; not thread-safe. `now` is an argument, for tests.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "neuron/eager/cutter.h"
#include "neuron/eager/emulated_target.h"
#include "neuron/runtime/window.h"

namespace neuron {

class SlowTargetPolicy {
 public:
  using Time = EmulatedTarget::Time;

  SlowTargetPolicy(EmulatedTarget& target, Cutter& cutter) : target_(target), cutter_(cutter) {}

  // As RecordExecutor::next, but 0 also means that a compile must end first, even if `must_run`.
  size_t next(const Window& window, size_t begin, size_t end, const char* must_run, bool strict,
              Time now);
  const char* reason() const { return reason_; }

  // The answer of `next` runs now; called before the cutter's `take`.
  void take(size_t count, Time now);

 private:
  struct Piece {
    size_t records;
    uint64_t key;
    bool boundary;  // at its end
    const char* reason;
    std::vector<uint64_t> operations;  // distinct, keys of their own executables
  };
  // Pieces that run as one executable.
  struct Sequence {
    std::vector<uint64_t> pieces;
    size_t records = 0;
  };

  size_t next_strict(const Window& window, size_t begin, size_t end, Time now);
  void add_piece(const Window& window, size_t begin, const Cutter::Cut& cut, Time now);
  void cover(const Piece& piece, bool first, Time now);
  bool any_ready_beyond(uint64_t prefix, Time now);
  void grow(const Sequence& sequence, bool boundary, Time now);

  // A host that pauses for longer does something else than recording.
  static constexpr auto kPause = std::chrono::milliseconds(10);
  static constexpr uint8_t kRepeats = 2;
  static constexpr int kStakes = 2;
  static constexpr size_t kMaxRecords = 1024;  // of a sequence

  EmulatedTarget& target_;
  Cutter& cutter_;
  std::deque<Piece> pieces_;
  size_t covered_ = 0;  // records of pieces_
  size_t chosen_ = 0;   // pieces of the last answer, 0: a single operation
  size_t singles_ = 0;  // records of the first piece that run one by one
  size_t available_ = 0;
  Time grown_at_{};
  const char* reason_ = "";

  std::unordered_set<uint64_t> gambles_;  // pieces asked for as a whole and seen once
  EmulatedTarget::Duration at_stake_{};   // their compile time

  Sequence last_;                                // ran last and is not part of a pair yet
  std::unordered_map<uint64_t, uint8_t> pairs_;  // how often two sequences followed each other
  std::unordered_map<uint64_t, uint8_t> piece_seen_;
  std::unordered_map<uint64_t, uint8_t> operation_pieces_;      // distinct pieces that have it
  std::unordered_map<uint64_t, std::vector<uint64_t>> longer_;  // by prefix: sequences asked for
};

}  // namespace neuron
