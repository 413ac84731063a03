// SPDX-License-Identifier: Apache-2.0
//
// Cuts depend on what is recorded, not on when.
#include "neuron/eager/cutter.h"

#include <gtest/gtest.h>

#include <random>

#include "core/eager_testing.h"

namespace neuron {
namespace {

using test::Session;
using test::Tensor;

// A step of a made-up training loop.
void record_step(Session& s, const Tensor& x) {
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    switch (random() % 4) {
      case 0:
        s.host([] {}, {x}, {x});
        break;
      case 1:
        s.pointwise(LoweredOp::kAdd, {x, x}, x);
        break;
      default:
        s.pointwise(random() % 2 == 0 ? LoweredOp::kTanh : LoweredOp::kNeg, {x}, x);
    }
  }
}

// Positions of the cuts when `available(done)` records are there.
std::vector<size_t> cuts(Cutter& cutter, const Window& w,
                         const std::function<size_t(size_t)>& available) {
  std::vector<size_t> result;
  size_t done = 0;
  while (done < w.size()) {
    const size_t end = std::min(w.size(), available(done));
    const size_t n = cutter.next(w, done, end, end == w.size() ? "Synchronize" : nullptr);
    if (n == 0) continue;
    cutter.take(w, done, n);
    done += n;
    result.push_back(done);
  }
  return result;
}

TEST(CutterTest, CutsDoNotDependOnTheHostsSpeed) {
  Session s;
  const Tensor x = s.empty({64});
  for (int i = 0; i < 5; ++i) record_step(s, x);
  Cutter fast, slow;
  const auto all = cuts(fast, s.window(), [&](size_t) { return s.window().size(); });
  size_t there = 0;
  EXPECT_EQ(cuts(slow, s.window(), [&](size_t) { return there += 3; }), all);
  EXPECT_GT(all.size(), 5u);
}

TEST(CutterTest, RepeatedStepsAreCutAlike) {
  Session s;
  const Tensor x = s.empty({64});
  for (int i = 0; i < 6; ++i) record_step(s, x);
  Cutter cutter;
  std::vector<std::vector<size_t>> steps(6);
  for (size_t c : cuts(cutter, s.window(), [&](size_t) { return s.window().size(); })) {
    steps[(c - 1) / 100].push_back((c - 1) % 100);
  }
  for (size_t k = 2; k < 5; ++k) EXPECT_EQ(steps[k], steps[1]) << k;
}

TEST(CutterTest, TheSecondTimeASequenceIsKnown) {
  Session s;
  const Tensor x = s.empty({64});
  for (int i = 0; i < 2; ++i) record_step(s, x);
  Cutter cutter;
  EXPECT_FALSE(cutter.take(s.window(), 0, 100));
  EXPECT_TRUE(cutter.take(s.window(), 100, 100));
}

TEST(CutterTest, LeadingHostCallsRunAtOnce) {
  Session s;
  const Tensor x = s.empty({64});
  s.host([] {}, {x}, {x});
  s.host([] {}, {x}, {x});
  s.pointwise(LoweredOp::kNeg, {x}, x);
  Cutter cutter;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(cutter.next(s.window(), i, i + 1, nullptr), 1u);
    cutter.take(s.window(), i, 1);
  }
  EXPECT_EQ(cutter.next(s.window(), 2, 3, nullptr), 0u);
}

TEST(CutterTest, AWaitTakesEverything) {
  Session s;
  const Tensor x = s.empty({64});
  s.pointwise(LoweredOp::kNeg, {x}, x);
  Cutter cutter;
  EXPECT_EQ(cutter.next(s.window(), 0, 1, nullptr), 0u);
  EXPECT_EQ(cutter.next(s.window(), 0, 1, "HostRead"), 1u);
  EXPECT_STREQ(cutter.reason(), "HostRead");
}

// Lengths of the windows of `steps` steps, the last of which ends with a wait for `reason`.
std::vector<size_t> lengths(Cutter& cutter, int steps, const char* reason) {
  Session s;
  const Tensor x = s.empty({64});
  for (int i = 0; i < steps; ++i) record_step(s, x);
  std::vector<size_t> result;
  for (size_t done = 0, n; done < s.window().size(); done += n) {
    n = cutter.next(s.window(), done, s.window().size(), reason);
    cutter.take(s.window(), done, n);
    result.push_back(n);
  }
  return result;
}

TEST(CutterTest, WhereAProgramWaitsAgainIsABoundary) {
  Cutter cutter;
  lengths(cutter, 1, "HostRead");
  const std::vector<size_t> one = lengths(cutter, 1, "HostRead");
  std::vector<size_t> three;
  for (int i = 0; i < 3; ++i) three.insert(three.end(), one.begin(), one.end());
  EXPECT_EQ(lengths(cutter, 3, "HostRead"), three);
}

TEST(CutterTest, AFullQueueMakesNoBoundary) {
  Cutter waits, runs;
  for (int i = 0; i < 2; ++i) lengths(waits, 1, "BackPressure");
  EXPECT_EQ(lengths(waits, 3, "HostRead"), lengths(runs, 3, "HostRead"));
}

TEST(CutterTest, EqualRecordsAreCutRegularly) {
  Session s;
  const Tensor x = s.empty({64});
  for (int i = 0; i < 120; ++i) s.pointwise(LoweredOp::kTanh, {x}, x);
  Cutter cutter;
  std::vector<size_t> lengths;
  for (size_t done = 0, n; (n = cutter.next(s.window(), done, 120, nullptr)) != 0; done += n) {
    cutter.take(s.window(), done, n);
    lengths.push_back(n);
    if (lengths.size() == 5) break;
  }
  // The first depends on where the program began.
  EXPECT_EQ(std::vector<size_t>(lengths.begin() + 1, lengths.end()),
            std::vector<size_t>(4, Cutter::kReach));
}

}  // namespace
}  // namespace neuron
