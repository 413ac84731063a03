// SPDX-License-Identifier: Apache-2.0
//
// The policy for a slow compiler, simulated on a virtual clock: a training loop's host, its device
// and the compile workers.
#include "neuron/eager/slow_target_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/eager_testing.h"

namespace neuron {
namespace {

using namespace std::chrono_literals;
using test::Session;
using test::Tensor;
using Duration = EmulatedTarget::Duration;
using Time = EmulatedTarget::Time;
using Urgency = EmulatedTarget::Urgency;

constexpr Time kStart{};

// ---- the emulated compiler
// -----------------------------------------------------------------------

TEST(EmulatedTargetTest, ACompileTakesBaseAndOperations) {
  EmulatedTarget target({.base = 200ms, .per_operation = 20ms});
  target.request(1, 10, Urgency::kNeeded, kStart);
  EXPECT_FALSE(target.ready(1, kStart + 399ms));
  EXPECT_EQ(target.next_ready(kStart), kStart + 400ms);
  EXPECT_TRUE(target.ready(1, kStart + 400ms));
  EXPECT_FALSE(target.ready(2, kStart + 400ms));
}

TEST(EmulatedTargetTest, WorkersCompileSideBySideAndNeedsComeFirst) {
  EmulatedTarget target({.base = 100ms, .workers = 2});
  for (uint64_t key : {1, 2}) target.request(key, 1, Urgency::kNeeded, kStart);
  target.request(3, 1, Urgency::kGrowth, kStart);
  target.request(4, 1, Urgency::kNeeded, kStart + 10ms);
  target.request(4, 1, Urgency::kNeeded, kStart + 150ms);  // never twice
  EXPECT_TRUE(target.ready(1, kStart + 100ms));
  EXPECT_TRUE(target.ready(2, kStart + 100ms));
  EXPECT_TRUE(target.ready(4, kStart + 200ms));
  EXPECT_FALSE(target.ready(3, kStart + 299ms));  // one worker stays free for needs
  EXPECT_TRUE(target.ready(3, kStart + 300ms));
}

TEST(EmulatedTargetTest, AQueuedCompileMayBecomeUrgent) {
  EmulatedTarget target({.base = 100ms, .workers = 1});
  target.request(1, 1, Urgency::kNeeded, kStart);
  target.request(2, 1, Urgency::kSpare, kStart);
  target.request(3, 1, Urgency::kGrowth, kStart);
  target.request(2, 1, Urgency::kNeeded, kStart + 50ms);
  EXPECT_TRUE(target.ready(2, kStart + 200ms));
  EXPECT_FALSE(target.ready(3, kStart + 299ms));
  EXPECT_TRUE(target.ready(3, kStart + 300ms));
}

// ---- a training loop
// -----------------------------------------------------------------------------

// A step of the shape of a small transformer's: a few operations, four equal layers forward, a
// loss, four equal layers backward, an optimizer. 253 operations, 50 distinct, 4 of 10 host calls.
std::vector<int> transformer_step() {
  std::vector<int> step;
  const auto add = [&](int times, int first, int distinct, int length) {
    for (int t = 0; t < times; ++t) {
      for (int i = 0; i < length; ++i)
        step.push_back(first + (i < distinct ? i : (5 * i + 3 * i * i) % distinct));
    }
  };
  add(1, 0, 6, 6);
  add(4, 6, 13, 22);
  add(1, 19, 8, 12);
  add(4, 27, 16, 30);
  add(1, 43, 7, 27);
  return step;
}

class Loop {
 public:
  struct Options {
    Duration plain = 55ms;  // what the device computes for a step
    Duration host = 5ms;    // what the host takes to record one
    int read_every = 10;
    bool strict = false;
    std::vector<int> (*step)(int number) = [](int) { return transformer_step(); };
  };

  Loop(const EmulatedTarget::Options& target, Options options)
      : target_(target), options_(options), policy_(target_, cutter_) {
    for (int kind = 0; kind < 64; ++kind) tensors_.push_back(session_.empty({64 + kind}));
  }

  // When each step has run, from the start of the program.
  std::vector<Duration> run(int steps) {
    Time host = kStart, device = kStart;
    std::vector<Time> recorded;  // per record
    std::vector<size_t> ends;    // per step
    std::vector<Duration> result;
    Window& w = session_.window();
    size_t done = 0;
    const auto record_until_read = [&] {
      do {
        const std::vector<int> kinds = options_.step(static_cast<int>(ends.size()));
        for (int kind : kinds) {
          record(kind);
          host += options_.host / static_cast<int>(kinds.size());
          recorded.push_back(host);
        }
        ends.push_back(w.size());
      } while (ends.size() % static_cast<size_t>(options_.read_every) != 0);
    };
    record_until_read();
    const Duration each = options_.plain / static_cast<int>(transformer_step().size());
    while (result.size() < static_cast<size_t>(steps)) {
      if (done == w.size()) {  // the host has what it read, and goes on
        host = device;
        record_until_read();
      }
      const auto there = std::upper_bound(recorded.begin(), recorded.end(), device);
      const auto end = static_cast<size_t>(there - recorded.begin());
      const bool waiting = end == w.size();
      size_t n = 0;
      if (end > done) {
        n = policy_.next(w, done, end, waiting ? "HostRead" : nullptr, options_.strict, device);
      }
      if (n == 0) {
        Time next = target_.next_ready(device);
        if (!waiting) next = std::min(next, recorded[end]);
        if (next == Time::max()) next = device + 1ms;
        device = next;
        continue;
      }
      policy_.take(n, device);
      cutter_.take(w, done, n);
      device += target_.options().launch + each * static_cast<int>(n);
      done += n;
      ++launches_;
      while (result.size() < ends.size() && ends[result.size()] <= done) {
        result.push_back(device - kStart);
        launches_at_.push_back(launches_);
      }
    }
    return result;
  }

  int launches(size_t step) const { return launches_at_[step] - launches_at_[step - 1]; }
  EmulatedTarget& target() { return target_; }

 private:
  class Named final : public HostCall {
   public:
    explicit Named(const char* name) : name_(name) {}
    void run() override {}
    const char* name() const override { return name_; }

   private:
    const char* name_;
  };

  void record(int kind) {
    static constexpr const char* kNames[] = {"mm", "bmm", "addmm", "sort", "cumsum"};
    const Tensor& x = tensors_[static_cast<size_t>(kind)];
    if (kind % 5 < 2) {
      TensorRef ref;
      ref.block = x.storage.get();
      RecordRequest request;
      request.inputs = request.outputs = std::span<const TensorRef>(&ref, 1);
      request.host = std::make_unique<Named>(kNames[kind / 5 % 5]);
      session_.window().append(std::move(request));
    } else {
      static constexpr LoweredOp kOps[] = {LoweredOp::kTanh, LoweredOp::kNeg, LoweredOp::kExp,
                                           LoweredOp::kAbs, LoweredOp::kRelu};
      session_.pointwise(kOps[kind / 5 % 5], {x}, x);
    }
  }

  Session session_;
  EmulatedTarget target_;
  const Options options_;
  Cutter cutter_;
  SlowTargetPolicy policy_;
  std::vector<Tensor> tensors_;
  int launches_ = 0;
  std::vector<int> launches_at_;
};

constexpr EmulatedTarget::Options kSlow{
    .base = 200ms, .per_operation = 20ms, .launch = 500us, .workers = 4};

double ms(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

TEST(SlowTargetPolicyTest, TheStepIsTheOneOfTheBaselines) {
  std::vector<int> step = transformer_step();
  EXPECT_EQ(step.size(), 253u);
  std::sort(step.begin(), step.end());
  EXPECT_EQ(std::unique(step.begin(), step.end()) - step.begin(), 50);
}

// By what the device computes for a step, in milliseconds.
class TrainingLoop : public ::testing::TestWithParam<int> {};

TEST_P(TrainingLoop, BeatsWholeStepsAndSingleOperations) {
  Loop loop(kSlow, {.plain = std::chrono::milliseconds(GetParam())});
  const int last = 12000 / GetParam();
  const std::vector<Duration> steps = loop.run(last + 1);
  const double plain = GetParam(), launch = 0.5, operations = 253, distinct = 50;
  const double whole_first = 200 + 20 * operations + 30 * (plain + launch);
  const double each_alone = distinct * 220 / 4 + 30 * (plain + operations * launch);
  EXPECT_LE(ms(steps[29]), 0.6 * whole_first);
  EXPECT_LE(ms(steps[29]), 0.6 * each_alone);
  EXPECT_LE(ms(steps[29] - steps[20]) / 9, 1.05 * (plain + 10 * launch));
  EXPECT_LE(loop.launches(static_cast<size_t>(last)), 3);  // grown towards whole steps
}

INSTANTIATE_TEST_SUITE_P(Plain, TrainingLoop, ::testing::Values(20, 40, 55));

TEST(SlowTargetPolicyTest, ASlowerCompilerOrHostChangesNothingInPrinciple) {
  EmulatedTarget::Options slower = kSlow;
  slower.base = 2s;
  slower.per_operation = 50ms;
  EXPECT_LE(ms(Loop(slower, {}).run(30)[29]), 0.6 * (2000 + 50 * 253 + 30 * 55.5));
  EXPECT_LE(ms(Loop(kSlow, {.host = 50ms}).run(30)[29]), 0.6 * (200 + 20 * 253 + 30 * 55.5));
  EXPECT_LE(ms(Loop(kSlow, {.read_every = 1}).run(30)[29]), 0.6 * (200 + 20 * 253 + 30 * 60.5));
}

TEST(SlowTargetPolicyTest, StrictModeCompilesAndLaunchesEachOperation) {
  Loop loop(kSlow, {.strict = true});
  const double total = ms(loop.run(30)[29]);
  EXPECT_EQ(loop.launches(20), 253);
  EXPECT_NEAR(total, 50 * 220 / 4 + 30 * (55 + 253 * 0.5), 300);
}

// The same operations in another order every step: no window comes back.
std::vector<int> shuffled_step(int number) {
  std::vector<int> step = transformer_step();
  std::shuffle(step.begin(), step.end(), std::mt19937(static_cast<uint32_t>(number)));
  return step;
}

TEST(SlowTargetPolicyTest, AProgramThatNeverRepeatsEndsWithSingleOperations) {
  Loop loop(kSlow, {.step = shuffled_step});
  const std::vector<Duration> steps = loop.run(40);
  // All operations alone are 2.75 s, and the compiles of windows before are as much at most twice.
  EXPECT_LE(ms(steps[9]), 3 * 2750 + 10 * (55 + 253 * 0.5));
  EXPECT_NEAR(ms(steps[38] - steps[30]) / 8, 55 + 253 * 0.5, 20);
}

}  // namespace
}  // namespace neuron
