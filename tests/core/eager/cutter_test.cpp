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
    const size_t n = cutter.next(w, done, end, end == w.size());
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
    ASSERT_EQ(cutter.next(s.window(), i, i + 1, false), 1u);
    cutter.take(s.window(), i, 1);
  }
  EXPECT_EQ(cutter.next(s.window(), 2, 3, false), 0u);
}

TEST(CutterTest, AWaitTakesEverything) {
  Session s;
  const Tensor x = s.empty({64});
  s.pointwise(LoweredOp::kNeg, {x}, x);
  Cutter cutter;
  EXPECT_EQ(cutter.next(s.window(), 0, 1, false), 0u);
  EXPECT_EQ(cutter.next(s.window(), 0, 1, true), 1u);
}

}  // namespace
}  // namespace neuron
