// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/cutter.h"

#include <algorithm>

#include "neuron/lower/attributes.h"
#include "neuron/lower/op_table.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

// Longer than the host takes between two operations of a running Python program.
constexpr auto kStall = std::chrono::microseconds(50);
constexpr uint64_t kAfterHostCall = 8;  // one host call in so many ends a window
constexpr uint64_t kAfterOther = 64;

uint64_t mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0xff51afd7ed558ccdu;
  return h ^ (h >> 33);
}

}  // namespace

uint64_t fingerprint(const OpRecord& record) {
  uint64_t h =
      mix(static_cast<uint64_t>(record.op) + 1, record.inputs.size() << 8 | record.outputs.size());
  if (!is_lowered(record.op)) {
    return record.host != nullptr ? mix(h, reinterpret_cast<uintptr_t>(record.host->name())) : h;
  }
  if (attribute_count(record.attributes) > 1) {
    h = mix(mix(h, attribute_word(record.attributes, 0)), attribute_word(record.attributes, 1));
  }
  for (const TensorRef& ref : record.outputs) {
    h = mix(h, static_cast<uint64_t>(ref.dtype) << 8 | ref.rank);
  }
  return h;
}

void Cutter::scan(const Window& window, size_t begin, size_t end) {
  const size_t known = ahead_.size();
  for (size_t i = begin + known; i < end; ++i) {
    const uint64_t f = fingerprint(window[i]);
    const uint64_t h = mix(mix(mix(f, recent_[0]), recent_[1]), recent_[2]);
    recent_ = {f, recent_[0], recent_[1]};
    const uint64_t one_in = is_lowered(window[i].op) ? kAfterOther : kAfterHostCall;
    ahead_.push_back({f, h % one_in == 0, !is_lowered(window[i].op)});
  }
  if (ahead_.size() != known) grown_at_ = Clock::now();
}

size_t Cutter::next(const Window& window, size_t begin, size_t end, bool must_run) {
  static Counter& host_ops = counter("Window.HostOp");
  static Counter& cuts = counter("Window.Cut");
  static Counter& full = counter("Window.Size");
  static Counter& drained = counter("Window.Drained");
  static Counter& stalled = counter("Window.HostStalled");
  scan(window, begin, end);
  const auto cut_behind = [&](size_t n) {
    return ahead_[n - 1].cut && since_cut_ + n >= kMinRecords;
  };
  if (ahead_.front().host) {
    ends_at_cut_ = cut_behind(1);
    host_ops.add();
    reason_ = kHostOp;
    return 1;
  }
  ends_at_cut_ = true;
  const size_t available = std::min(ahead_.size(), kMaxRecords);
  for (size_t n = 1; n <= available; ++n) {
    if (!cut_behind(n)) continue;
    cuts.add();
    reason_ = kCut;
    return n;
  }
  if (available == kMaxRecords) {
    full.add();
    reason_ = kSize;
    return kMaxRecords;
  }
  if (must_run) {
    drained.add();
    reason_ = kDrained;
    return available;
  }
  ends_at_cut_ = false;
  if (Clock::now() - grown_at_ < kStall) return 0;
  stalled.add();
  reason_ = kHostStalled;
  return available;
}

bool Cutter::take(const Window& window, size_t begin, size_t count) {
  scan(window, begin, begin + count);
  uint64_t h = count;
  for (size_t i = 0; i < count; ++i) h = mix(h, ahead_[i].fingerprint);
  ahead_.erase(ahead_.begin(), ahead_.begin() + static_cast<std::ptrdiff_t>(count));
  since_cut_ = ends_at_cut_ ? 0 : since_cut_ + count;
  uint64_t& slot = seen_[h % seen_.size()];
  const bool seen = slot == h;
  slot = h;
  return seen;
}

}  // namespace neuron
