// SPDX-License-Identifier: Apache-2.0
//
// The contract of Stream, Device and EventState: order, waits, errors, back-pressure, shutdown.
#include "neuron/runtime/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "neuron/runtime/event.h"
#include "neuron/runtime/runtime.h"
#include "test_target.h"

namespace neuron {
namespace {

using test::record;
using test::SmallTarget;

class StreamTest : public ::testing::Test {
 protected:
  Runtime runtime_{std::make_unique<SmallTarget>()};
  Device& device_ = runtime_.device(0);
  Stream& stream_ = device_.default_stream();
  void TearDown() override { runtime_.shutdown(); }
};

struct EventDeleter {
  void operator()(EventState* e) const { e->release(); }
};
using EventPtr = std::unique_ptr<EventState, EventDeleter>;

TEST_F(StreamTest, RunsRecordsInOrder) {
  std::vector<int> seen;  // written by one record at a time, read after the wait
  for (int i = 0; i < 1000; ++i) record(stream_, [&seen, i] { seen.push_back(i); });
  stream_.synchronize();
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
  EXPECT_EQ(stream_.completed(), stream_.submitted());
}

TEST_F(StreamTest, TimelineValuesCountRecords) {
  const uint64_t first = record(stream_, [] {});
  const uint64_t second = record(stream_, [] {});
  EXPECT_EQ(second, first + 1);
  stream_.wait(first, SealReason::kSynchronize);
  EXPECT_GE(stream_.completed(), first);
}

TEST_F(StreamTest, DeviceThreadRunsWithoutAWait) {
  std::latch ran(1);
  record(stream_, [&] { ran.count_down(); });
  ran.wait();  // nobody synchronises: the device thread alone must get here
}

TEST_F(StreamTest, RunsAgainAfterDeepSleep) {
  std::latch first(1);
  record(stream_, [&] { first.count_down(); });
  first.wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // past the dozing phase
  std::latch second(1);
  record(stream_, [&] { second.count_down(); });
  second.wait();
}

TEST_F(StreamTest, QueryDoesNotWait) {
  std::latch go(1);
  record(stream_, [&] { go.wait(); });
  EXPECT_FALSE(stream_.query());
  go.count_down();
  stream_.synchronize();
  EXPECT_TRUE(stream_.query());
}

TEST_F(StreamTest, FailureIsThrownOnceByTheFirstWaitThatCoversIt) {
  const uint64_t before = record(stream_, [] {});
  record(stream_, [] { throw Error(ErrorCode::kExecution, "boom"); });
  const uint64_t after = record(stream_, [] {});
  EXPECT_NO_THROW(stream_.wait(before, SealReason::kSynchronize));
  try {
    stream_.wait(after, SealReason::kSynchronize);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kExecution);
    EXPECT_NE(std::string(e.what()).find("boom"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("test::lambda"), std::string::npos);
  }
  EXPECT_NO_THROW(stream_.synchronize());
}

TEST_F(StreamTest, FailureOfAnyTypeIsCaught) {
  record(stream_, [] { throw std::runtime_error("standard"); });
  EXPECT_THROW(stream_.synchronize(), Error);
  record(stream_, [] { throw 42; });  // NOLINT
  EXPECT_THROW(stream_.synchronize(), Error);
}

TEST_F(StreamTest, PoisonSkipsDependantsAndIsClearedByOverwriting) {
  Block* a = device_.pool().allocate(64, &stream_);
  Block* b = device_.pool().allocate(64, &stream_);
  bool dependant_ran = false, independent_ran = false;
  record(stream_, [] { throw Error(ErrorCode::kExecution, "bad"); }, nullptr, a);
  record(stream_, [&] { dependant_ran = true; }, a, b);
  record(stream_, [&] { independent_ran = true; });
  EXPECT_THROW(stream_.synchronize(), Error);
  EXPECT_FALSE(dependant_ran);
  EXPECT_TRUE(independent_ran);
  EXPECT_TRUE(a->poisoned());
  ASSERT_TRUE(b->poisoned());
  EXPECT_NE(b->poison()->message().find("bad"), std::string::npos);
  record(stream_, [] {}, nullptr, b, /*overwrites=*/true);
  EXPECT_NO_THROW(stream_.synchronize());
  EXPECT_FALSE(b->poisoned());
  EXPECT_TRUE(a->poisoned());
  device_.pool().free(a);
  device_.pool().free(b);
}

TEST_F(StreamTest, EventsOrderStreams) {
  Stream& other = device_.pool_stream(0);
  EventPtr event(new EventState(false));
  std::latch go(1);
  int value = 0;
  record(stream_, [&] {
    go.wait();
    value = 1;
  });
  stream_.record_event(*event);
  other.wait_event(*event);
  int seen = -1;
  record(other, [&] { seen = value; });
  go.count_down();
  other.synchronize();
  EXPECT_EQ(seen, 1);
}

TEST_F(StreamTest, WaitingOnABlockedStreamRunsTheOtherDevice) {
  Stream& other = runtime_.device(1).default_stream();
  EventPtr event(new EventState(false));
  int order = 0, first = 0, second = 0;
  record(other, [&] { first = ++order; });
  other.record_event(*event);
  stream_.wait_event(*event);
  record(stream_, [&] { second = ++order; });
  stream_.synchronize();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST_F(StreamTest, AWaitKeepsThePointThatItSaw) {
  Stream& other = device_.pool_stream(0);
  EventPtr event(new EventState(false));
  record(stream_, [] {});
  stream_.record_event(*event);
  stream_.synchronize();
  std::latch go(1);
  record(stream_, [&] { go.wait(); });
  other.wait_event(*event);      // the point that has passed
  stream_.record_event(*event);  // moves the event behind the blocked record
  record(other, [] {});
  other.synchronize();  // must not wait for `go`
  go.count_down();
  stream_.synchronize();
}

TEST_F(StreamTest, TimedEventsMeasure) {
  EventPtr start(new EventState(true)), end(new EventState(true));
  stream_.record_event(*start);
  record(stream_, [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  stream_.record_event(*end);
  stream_.synchronize();
  EXPECT_GE(end->time_ns() - start->time_ns(), 5'000'000);
}

TEST_F(StreamTest, QueueIsBounded) {
  std::atomic<int64_t> ran{0};
  int64_t most = 0;
  for (int64_t i = 0; i < 20000; ++i) {
    record(stream_, [&] { ran.fetch_add(1); });
    most = std::max(most, i + 1 - ran.load());
  }
  stream_.synchronize();
  EXPECT_EQ(ran.load(), 20000);
  EXPECT_LE(most, 4097);  // TORCH_NEURONX_MAX_INFLIGHT_OPS and the record being made
}

TEST_F(StreamTest, HeldBlocksLiveUntilTheirRecordsRan) {
  std::latch go(1);
  record(stream_, [&] { go.wait(); });
  Block* block = device_.pool().allocate(1024, &stream_);
  auto* words = reinterpret_cast<int*>(block->address());
  int read = 0;
  record(stream_, [words] { words[0] = 7; }, nullptr, block);
  record(stream_, [words, &read] { read = words[0]; }, block);
  device_.pool().free(block);  // the storage dies before the records run
  go.count_down();
  stream_.synchronize();
  EXPECT_EQ(read, 7);
}

TEST_F(StreamTest, ManyThreadsManyStreams) {
  constexpr int kThreads = 4, kRounds = 200;
  std::vector<std::thread> threads;
  std::vector<int64_t> sums(kThreads, 0);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Device& device = runtime_.device(t % 2);
      Stream& a = device.pool_stream(0);
      Stream& b = device.pool_stream(-1);
      std::mt19937 random(static_cast<unsigned>(t));
      int64_t& sum = sums[static_cast<size_t>(t)];
      for (int i = 0; i < kRounds; ++i) {
        Stream& from = random() % 2 != 0 ? a : b;
        Stream& to = &from == &a ? b : a;
        record(from, [&sum] { ++sum; });
        EventPtr event(new EventState(false));
        from.record_event(*event);
        to.wait_event(*event);
        record(to, [&sum] { ++sum; });  // ordered behind the other stream by the event
        to.record_event(*event);
        from.wait_event(*event);
        if (random() % 16 == 0) to.synchronize();
      }
      a.synchronize();
      b.synchronize();
    });
  }
  for (std::thread& t : threads) t.join();
  for (int64_t sum : sums) EXPECT_EQ(sum, 2 * kRounds);
}

TEST(RuntimeTest, ShutdownRunsWhatIsQueued) {
  int ran = 0;
  {
    Runtime runtime(std::make_unique<SmallTarget>());
    for (int i = 0; i < 100; ++i) record(runtime.device(0).default_stream(), [&] { ++ran; });
    runtime.shutdown();
    EXPECT_EQ(ran, 100);
    record(runtime.device(0).default_stream(), [&] { ++ran; });  // after the end: runs in the wait
    runtime.device(0).synchronize();
  }
  EXPECT_EQ(ran, 101);
}

TEST(RuntimeTest, DeviceIndexIsChecked) {
  Runtime runtime(std::make_unique<SmallTarget>());
  EXPECT_THROW(runtime.device(2), Error);
  EXPECT_THROW(runtime.device(-1), Error);
  EXPECT_THROW(runtime.device(0).stream(99), Error);
}

}  // namespace
}  // namespace neuron
