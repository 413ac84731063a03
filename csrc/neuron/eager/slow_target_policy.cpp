// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/slow_target_policy.h"

#include <algorithm>

#include "neuron/base/error.h"
#include "neuron/eager/window_end.h"
#include "neuron/lower/op_table.h"
#include "neuron/runtime/block.h"

namespace neuron {
namespace {

using Urgency = EmulatedTarget::Urgency;

constexpr size_t kStrictLookahead = 256;

uint64_t mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0xff51afd7ed558ccdu;
  return h ^ (h >> 33);
}

// A target with a slow compiler has static shapes: everything but addresses and scalars counts, and
// which operands of the run are the same memory.
class KeyOfRecords {
 public:
  void add(const OpRecord& record) {
    h_ = mix(h_, fingerprint(record));
    for (const auto refs : {record.inputs, record.outputs}) {
      for (const TensorRef& ref : refs) {
        const auto [known, inserted] = numbers_.emplace(ref.block, numbers_.size());
        h_ = mix(h_, known->second << 16 | static_cast<uint64_t>(ref.dtype) << 8 | ref.rank);
        if (!is_lowered(record.op)) h_ = mix(h_, ref.block->bytes());
        for (int d = 0; d < ref.rank; ++d) {
          h_ = mix(mix(h_, static_cast<uint64_t>(ref.sizes[d])),
                   static_cast<uint64_t>(ref.strides[d]));
        }
      }
    }
  }
  uint64_t value() const { return h_; }

 private:
  uint64_t h_ = 0x9e3779b97f4a7c15u;
  std::unordered_map<const Block*, size_t> numbers_;
};

uint64_t operation_key(const OpRecord& record) {
  KeyOfRecords key;
  key.add(record);
  return mix(key.value(), 1);
}

constexpr uint64_t kNoPieces = 0x51afd7ed558ccdffu;
uint64_t extend(uint64_t sequence, uint64_t piece) { return mix(sequence, piece); }

uint64_t key_of(const std::vector<uint64_t>& pieces) {
  uint64_t h = kNoPieces;
  for (const uint64_t p : pieces) h = extend(h, p);
  return h;
}

}  // namespace

size_t SlowTargetPolicy::next(const Window& window, size_t begin, size_t end, const char* must_run,
                              bool strict, Time now) {
  if (strict) return next_strict(window, begin, end, now);
  if (end - begin != available_) grown_at_ = now;
  available_ = end - begin;
  const bool paused = now - grown_at_ >= kPause;
  cutter_.scan(window, begin, end, must_run);
  if (cutter_.cuts().empty() && paused) cutter_.scan(window, begin, end, window_end::kHostStalled);
  for (const Cutter::Cut& cut : cutter_.cuts()) {
    if (cut.end > covered_) add_piece(window, begin + covered_, cut, now);
  }
  if (singles_ > 0) {
    chosen_ = 0;
    return 1;
  }
  if (pieces_.empty()) return 0;

  size_t best = 0, records = 0, best_records = 0;
  uint64_t sequence = kNoPieces;
  bool open = true;  // more pieces could belong to it
  for (size_t i = 0; i < pieces_.size() && open; ++i) {
    sequence = extend(sequence, pieces_[i].key);
    records += pieces_[i].records;
    if (target_.ready(sequence, now)) {
      best = i + 1;
      best_records = records;
    }
    open = !pieces_[i].boundary && longer_.contains(sequence);
  }
  if (open && must_run == nullptr && !paused && any_ready_beyond(sequence, now)) return 0;
  if (best > 0) {
    chosen_ = best;
    reason_ = best > 1 ? window_end::kPredicted : pieces_.front().reason;
    return best_records;
  }
  const std::vector<uint64_t>& operations = pieces_.front().operations;
  const bool singles = std::all_of(operations.begin(), operations.end(),
                                   [&](uint64_t key) { return target_.ready(key, now); });
  if (!singles) return 0;
  singles_ = pieces_.front().records;
  chosen_ = 0;
  reason_ = window_end::kSingle;
  return 1;
}

size_t SlowTargetPolicy::next_strict(const Window& window, size_t begin, size_t end, Time now) {
  singles_ = chosen_ = 0;  // pieces come back from the cutter when the mode does
  reason_ = window_end::kStrict;
  const uint64_t first = operation_key(window[begin]);
  if (target_.ready(first, now)) return 1;
  for (size_t i = begin; i < std::min(end, begin + kStrictLookahead); ++i) {
    target_.request(operation_key(window[i]), 1, Urgency::kNeeded, now);
  }
  return target_.ready(first, now) ? 1 : 0;
}

void SlowTargetPolicy::add_piece(const Window& window, size_t begin, const Cutter::Cut& cut,
                                 Time now) {
  Piece piece{.records = cut.end - covered_,
              .key = 0,
              .boundary = cut.boundary,
              .reason = cut.reason,
              .operations = {}};
  KeyOfRecords key;
  for (size_t i = begin; i < begin + piece.records; ++i) {
    key.add(window[i]);
    piece.operations.push_back(operation_key(window[i]));
  }
  piece.key = key.value();
  std::sort(piece.operations.begin(), piece.operations.end());
  piece.operations.erase(std::unique(piece.operations.begin(), piece.operations.end()),
                         piece.operations.end());
  covered_ = cut.end;
  uint8_t& seen = piece_seen_[piece.key];
  if (seen == 1 && gambles_.erase(piece.key) > 0) at_stake_ -= target_.compile_time(piece.records);
  cover(piece, seen == 0, now);
  if (seen < kRepeats) ++seen;
  pieces_.push_back(std::move(piece));
}

void SlowTargetPolicy::cover(const Piece& piece, bool first, Time now) {
  const uint64_t whole = extend(kNoPieces, piece.key);
  std::vector<uint64_t> missing;
  for (const uint64_t key : piece.operations) {
    if (!target_.ready(key, now)) missing.push_back(key);
  }
  if (!target_.known(whole)) {
    const auto alone = target_.compile_time(1) * static_cast<int64_t>(missing.size());
    const auto together = target_.compile_time(piece.records);
    const auto all_alone = target_.compile_time(1) * static_cast<int64_t>(operation_pieces_.size());
    if (alone >= together && at_stake_ <= kStakes * all_alone) {
      target_.request(whole, piece.records, Urgency::kNeeded, now);
      if (gambles_.insert(piece.key).second) at_stake_ += together;
    } else {
      for (const uint64_t key : piece.operations) {
        target_.request(key, 1, Urgency::kNeeded, now);
      }
      if (!first) target_.request(whole, piece.records, Urgency::kGrowth, now);
    }
  }
  if (!first) return;
  for (const uint64_t key : piece.operations) {
    uint8_t& pieces = operation_pieces_[key];
    if (pieces < kRepeats && ++pieces == kRepeats) target_.request(key, 1, Urgency::kSpare, now);
  }
}

bool SlowTargetPolicy::any_ready_beyond(uint64_t prefix, Time now) {
  const auto found = longer_.find(prefix);
  return found != longer_.end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](uint64_t key) { return target_.ready(key, now); });
}

void SlowTargetPolicy::take(size_t count, Time now) {
  available_ -= std::min(count, available_);
  if (chosen_ == 0 && singles_ == 0) {  // strict
    pieces_.clear();
    covered_ = 0;
    return;
  }
  covered_ -= count;
  if (chosen_ == 0) {
    pieces_.front().records -= count;
    if (--singles_ == 0) pieces_.pop_front();
    last_ = {};
    return;
  }
  Sequence sequence;
  bool boundary = false;
  for (; chosen_ > 0; --chosen_) {
    const Piece& p = pieces_.front();
    sequence.pieces.push_back(p.key);
    sequence.records += p.records;
    boundary = p.boundary;
    pieces_.pop_front();
  }
  NEURON_CHECK(sequence.records == count);
  grow(sequence, boundary, now);
}

// Sequences are paired like socks: each belongs to one pair, so that a step's launches halve.
void SlowTargetPolicy::grow(const Sequence& sequence, bool boundary, Time now) {
  const size_t records = last_.records + sequence.records;
  if (last_.pieces.empty() || records > kMaxRecords) {
    last_ = sequence;
  } else {
    std::vector<uint64_t> both = std::move(last_.pieces);
    both.insert(both.end(), sequence.pieces.begin(), sequence.pieces.end());
    last_ = {};
    const uint64_t key = key_of(both);
    uint8_t& times = pairs_[key];
    if (times < kRepeats && ++times == kRepeats) {
      target_.request(key, records, Urgency::kGrowth, now);
      uint64_t prefix = kNoPieces;
      for (size_t i = 0; i + 1 < both.size(); ++i) {
        prefix = extend(prefix, both[i]);
        longer_[prefix].push_back(key);
      }
    }
  }
  if (boundary) last_ = {};
}

}  // namespace neuron
