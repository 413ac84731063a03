// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/cutter.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "neuron/eager/window_end.h"
#include "neuron/lower/attributes.h"
#include "neuron/lower/op_table.h"

namespace neuron {
namespace {

// Longer than the host takes between two operations of a running Python program.
constexpr auto kStall = std::chrono::microseconds(50);
constexpr size_t kRankContext = 4;  // records that a rank depends on
constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
constexpr uint64_t kOldestFactor = [] {
  uint64_t power = 1;
  for (size_t i = 1; i < Cutter::kBoundaryContext; ++i) power *= kFactor;
  return power;
}();

uint64_t mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0xff51afd7ed558ccdu;
  return h ^ (h >> 33);
}

// Other waits, for memory or a shorter queue, come anywhere.
bool follows_the_program(const char* reason) {
  const std::string_view why = reason;
  return why == name(SealReason::kHostRead) || why == name(SealReason::kSynchronize) ||
         why == window_end::kStreamOp;
}

}  // namespace

uint64_t fingerprint(const OpRecord& record) {
  uint64_t h =
      mix(static_cast<uint64_t>(record.op) + 1, record.inputs.size() << 8 | record.outputs.size());
  if (!is_lowered(record.op)) {
    // The text, not its address: cuts are the same in every process.
    return record.host != nullptr
               ? mix(h, std::hash<std::string_view>{}(std::string_view(record.host->name())))
               : h;
  }
  if (attribute_count(record.attributes) > 1) {
    h = mix(mix(h, attribute_word(record.attributes, 0)), attribute_word(record.attributes, 1));
  }
  for (const TensorRef& ref : record.outputs) {
    h = mix(h, static_cast<uint64_t>(ref.dtype) << 8 | ref.rank);
  }
  return h;
}

void Cutter::read(const OpRecord& record) {
  Record r;
  r.fingerprint = fingerprint(record);
  r.host = !is_lowered(record.op);
  // A polynomial of the last fingerprints, which drops the oldest and takes in the newest.
  uint64_t& oldest = recent_[scanned_ % recent_.size()];
  context_ = (context_ - oldest * kOldestFactor) * kFactor + r.fingerprint;
  oldest = r.fingerprint;
  ++scanned_;
  r.context = mix(context_, 1);
  // A rank depends on nothing before a boundary: there, a program begins anew.
  const size_t rank_context = std::min(kRankContext, ++since_boundary_);
  uint64_t h = 0;
  for (size_t back = 1; back <= rank_context; ++back) {
    h = mix(h, recent_[(scanned_ - back) % recent_.size()]);
  }
  r.rank = boundaries_[r.context % boundaries_.size()] == r.context ? 0 : h >> 2 | 1;
  if (r.rank == 0) since_boundary_ = 0;
  if (r.rank != 0 && !r.host) r.rank |= uint64_t{1} << 63;
  records_.push_back(r);
}

bool Cutter::lowest(size_t position) const {
  const auto p = static_cast<ptrdiff_t>(position), reach = static_cast<ptrdiff_t>(kReach);
  const ptrdiff_t first = std::max({p - reach, -static_cast<ptrdiff_t>(history_), last_boundary_});
  const ptrdiff_t last = std::min(p + reach, static_cast<ptrdiff_t>(ahead()) - 1);
  const uint64_t rank = at(p).rank;
  for (ptrdiff_t i = first; i <= last; ++i) {
    if (at(i).rank < rank || (rank == 0 && i > p && at(i).rank == 0)) return false;
  }
  return true;
}

void Cutter::decide() {
  const auto known = static_cast<ptrdiff_t>(ahead());
  while (decided_ < known) {
    const ptrdiff_t length = decided_ + 1 - last_cut_;
    const bool sure = decided_ + static_cast<ptrdiff_t>(kReach) < known;
    if (!sure && length < static_cast<ptrdiff_t>(kMaxRecords)) break;
    ++decided_;
    const bool cut = sure && length >= static_cast<ptrdiff_t>(kReach) &&
                     lowest(static_cast<size_t>(decided_ - 1));
    const bool full = length >= static_cast<ptrdiff_t>(kMaxRecords);
    if (!cut && !full) continue;
    last_cut_ = decided_;
    const bool boundary = cut && at(decided_ - 1).rank == 0;
    if (boundary) last_boundary_ = decided_;
    // Behind records that have run already nothing is left to cut.
    if (decided_ > 0) {
      cuts_.push_back(
          {static_cast<size_t>(decided_), boundary, cut ? window_end::kCut : window_end::kSize});
    }
  }
}

// Windows must end behind what was read so far.
void Cutter::end_here(const char* reason) {
  Record& last = records_.back();
  if (follows_the_program(reason)) {
    uint64_t& slot = ends_[last.context % ends_.size()];
    if (slot == last.context) boundaries_[last.context % boundaries_.size()] = last.context;
    slot = last.context;
  }
  last.rank = 0;
  decided_ = last_cut_ = last_boundary_ = static_cast<ptrdiff_t>(ahead());
  since_boundary_ = 0;
  cuts_.push_back({ahead(), true, reason});
}

void Cutter::scan(const Window& window, size_t begin, size_t end, const char* must_run) {
  const size_t known = ahead();
  for (size_t i = begin + known; i < end; ++i) read(window[i]);
  if (ahead() != known) grown_at_ = Clock::now();
  decide();
  const bool whole = ahead() == 0 || (!cuts_.empty() && cuts_.back().end == ahead());
  if (must_run != nullptr && !whole) end_here(must_run);
}

bool Cutter::host_stalled() const { return Clock::now() - grown_at_ >= kStall; }

size_t Cutter::next(const Window& window, size_t begin, size_t end, const char* must_run) {
  scan(window, begin, end, must_run);
  if (at(0).host) {
    reason_ = window_end::kHostOp;
    return 1;
  }
  if (cuts_.empty()) {
    if (!host_stalled()) return 0;
    end_here(window_end::kHostStalled);
  }
  reason_ = cuts_.front().reason;
  return cuts_.front().end;
}

bool Cutter::take(const Window& window, size_t begin, size_t count) {
  scan(window, begin, begin + count, nullptr);
  uint64_t h = count;
  for (size_t i = 0; i < count; ++i) h = mix(h, at(static_cast<ptrdiff_t>(i)).fingerprint);
  while (!cuts_.empty() && cuts_.front().end <= count) cuts_.pop_front();
  for (Cut& c : cuts_) c.end -= count;
  history_ += count;
  decided_ -= static_cast<ptrdiff_t>(count);
  last_cut_ -= static_cast<ptrdiff_t>(count);
  last_boundary_ -= static_cast<ptrdiff_t>(count);
  while (history_ > kReach &&
         static_cast<ptrdiff_t>(kReach) - static_cast<ptrdiff_t>(history_) < decided_) {
    records_.pop_front();
    --history_;
  }
  uint64_t& slot = seen_[h % seen_.size()];
  const bool seen = slot == h;
  slot = h;
  return seen;
}

}  // namespace neuron
