// SPDX-License-Identifier: Apache-2.0
//
// The memory pool at its limits, and what it tells about itself.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "core/memory_pool_testing.h"
#include "neuron/runtime/memory_pool.h"

namespace neuron {
namespace {

using testing::hold;
using testing::kKiB;
using testing::kMiB;
using testing::MemoryPoolTest;
using Action = MemoryEvent::Action;

TEST_F(MemoryPoolTest, SegmentsShrinkNearTheCapacity) {
  make(25 * kMiB + 100);
  Block* x = pool_->allocate(2 * kMiB, &a_);
  EXPECT_EQ(pool_->stats().reserved_bytes[2].current, static_cast<int64_t>(20 * kMiB));
  Block* y = pool_->allocate(4 * kMiB, &b_);
  EXPECT_EQ(pool_->stats().reserved_bytes[2].current, static_cast<int64_t>(25 * kMiB));
  EXPECT_EQ(pool_->free_capacity(), 100u);
  EXPECT_EQ(drains_, 0);
  pool_->free(x);
  pool_->free(y);
}

TEST_F(MemoryPoolTest, LargeSegmentsFitTheirRequest) {
  Block* x = pool_->allocate(30 * kMiB + 1, &a_);
  EXPECT_EQ(target_.held(), 32 * kMiB);
  Block* y = pool_->allocate(kMiB, &a_);  // what is left of it
  EXPECT_EQ(target_.held(), 32 * kMiB);
  EXPECT_EQ(y->address(), x->address() + 30 * kMiB + 256);
  pool_->free(x);
  pool_->free(y);
}

TEST_F(MemoryPoolTest, DrainingMakesRoom) {
  make(64 * kMiB);
  stop(b_);
  Block* x = pool_->allocate(60 * kMiB, &a_);
  pool_->record_stream(x, &b_);
  pool_->free(x);
  Block* y = pool_->allocate(50 * kMiB, &a_);
  EXPECT_EQ(drains_, 1);
  const MemoryStats stats = pool_->stats();
  EXPECT_EQ(stats.num_alloc_retries, 1);
  EXPECT_EQ(stats.num_sync_all_streams, 1);
  EXPECT_EQ(stats.num_ooms, 0);
  EXPECT_EQ(stats.num_device_alloc, 1);
  pool_->free(y);
}

TEST_F(MemoryPoolTest, CachedSegmentsOfOtherStreamsMakeRoom) {
  make(64 * kMiB);
  stop(b_);
  pool_->free(pool_->allocate(60 * kMiB, &b_));
  Block* y = pool_->allocate(50 * kMiB, &a_);
  EXPECT_EQ(pool_->stats().num_device_free, 1);
  EXPECT_EQ(target_.held(), 50 * kMiB);
  pool_->free(y);
}

TEST_F(MemoryPoolTest, ForeignMemoryTakesPartInTheCapacity) {
  make(64 * kMiB);
  std::vector<char> host(40 * kMiB);
  int released = 0;
  stop(a_);
  pool_->free(pool_->allocate(60 * kMiB, &a_));
  Block* x = pool_->adopt(host.data(), host.size(), &a_, [&] { ++released; });  // room is made
  EXPECT_EQ(pool_->stats().reserved_bytes[0].current, static_cast<int64_t>(host.size()));
  EXPECT_NE(out_of_memory(30 * kMiB), "");
  EXPECT_THROW(pool_->adopt(host.data(), host.size(), &a_, [&] { released += 100; }), Error);
  EXPECT_EQ(released, 0);
  stop(a_);
  pool_->free(x);
  pool_->free(pool_->allocate(30 * kMiB, &a_));  // drains and releases it
  EXPECT_EQ(released, 1);
}

TEST_F(MemoryPoolTest, OutOfMemorySaysWhatAndThePoolGoesOn) {
  make(64 * kMiB);
  Block* x = pool_->allocate(40 * kMiB, &a_);
  const std::string text = out_of_memory(50 * kMiB);
  EXPECT_EQ(text.find("Neuron OOM: requested_size=52428800 total_hbm=67108864 "), 0u) << text;
  for (const char* part :
       {"(OOM)", "Tried to allocate 50.00 MiB on neuron:0", "total capacity of 64.00 MiB",
        "24.00 MiB is free", "40.00 MiB is allocated by PyTorch", "TORCH_NEURONX_VIRTUAL_HBM_GB"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  EXPECT_EQ(drains_, 1);
  EXPECT_EQ(pool_->stats().num_ooms, 1);
  Block* y = pool_->allocate(20 * kMiB, &a_);
  pool_->free(x);
  pool_->free(pool_->allocate(40 * kMiB, &a_));
  pool_->free(y);
}

TEST_F(MemoryPoolTest, MoreThanTheCapacityFailsAtOnce) {
  EXPECT_NE(out_of_memory(pool_->capacity() + 1), "");
  EXPECT_NE(out_of_memory(SIZE_MAX), "");
  EXPECT_EQ(drains_, 0);
  EXPECT_EQ(pool_->stats().num_ooms, 2);
  make(0);
  EXPECT_NE(out_of_memory(0), "");
}

TEST_F(MemoryPoolTest, FragmentationIsNamed) {
  make(64 * kMiB);
  std::vector<Block*> blocks;
  for (int i = 0; i < 32; ++i) blocks.push_back(pool_->allocate(2 * kMiB, &a_));
  for (size_t i = 0; i < blocks.size(); i += 2) pool_->free(blocks[i]);
  const std::string text = out_of_memory(8 * kMiB);
  EXPECT_NE(text.find("fragmented"), std::string::npos) << text;
  EXPECT_NE(text.find("pieces of at most 2.00 MiB"), std::string::npos) << text;
  for (size_t i = 1; i < blocks.size(); i += 2) pool_->free(blocks[i]);
  pool_->free(pool_->allocate(60 * kMiB, &a_));
}

TEST_F(MemoryPoolTest, TargetWithoutMemoryIsOutOfMemory) {
  target_.set_limit(10 * kMiB);
  Block* x = pool_->allocate(3 * kMiB, &a_);  // a segment of 20 MiB is too much, 3 MiB is not
  EXPECT_EQ(target_.held(), 3 * kMiB);
  const std::string text = out_of_memory(8 * kMiB);
  EXPECT_NE(text.find("host has no memory left"), std::string::npos) << text;
  pool_->free(x);
  Block* y = pool_->allocate(8 * kMiB, &a_);  // gives the segment of 3 MiB back
  EXPECT_EQ(target_.held(), 8 * kMiB);
  pool_->free(y);
  target_.set_limit(SIZE_MAX);
  pool_->free(pool_->allocate(100 * kMiB, &a_));
}

TEST_F(MemoryPoolTest, StatisticsAndTheirResets) {
  stop(b_);
  Block* small = pool_->allocate(1000, &a_);
  Block* large = pool_->allocate(2 * kMiB, &a_);
  Block* shared = pool_->allocate(3000, &a_);
  pool_->record_stream(shared, &b_);
  pool_->free(shared);
  pool_->free(pool_->allocate(100, &a_));
  MemoryStats s = pool_->stats();
  const auto expect = [](const MemoryStat& stat, int64_t current, int64_t peak, int64_t allocated,
                         int64_t freed, int line) {
    EXPECT_EQ(stat.current, current) << line;
    EXPECT_EQ(stat.peak, peak) << line;
    EXPECT_EQ(stat.allocated, allocated) << line;
    EXPECT_EQ(stat.freed, freed) << line;
  };
  const auto mib = static_cast<int64_t>(kMiB);
  expect(s.allocation[0], 2, 3, 4, 2, __LINE__);
  expect(s.allocation[1], 1, 2, 3, 2, __LINE__);
  expect(s.allocation[2], 1, 1, 1, 0, __LINE__);
  expect(s.active[0], 3, 4, 4, 1, __LINE__);
  expect(s.active_bytes[1], 1024 + 3072, 1024 + 3072 + 256, 1024 + 3072 + 256, 256, __LINE__);
  expect(s.requested_bytes[1], 4000, 4100, 4100, 100, __LINE__);
  expect(s.allocated_bytes[2], 2 * mib, 2 * mib, 2 * mib, 0, __LINE__);
  expect(s.segment[0], 2, 2, 2, 0, __LINE__);
  expect(s.reserved_bytes[0], 22 * mib, 22 * mib, 22 * mib, 0, __LINE__);
  EXPECT_EQ(s.inactive_split[0].current, 2);
  EXPECT_EQ(s.inactive_split_bytes[2].current, 18 * mib);
  EXPECT_EQ(s.inactive_split_bytes[1].current, 2 * mib - 1024 - 3072);

  pool_->free(large);
  pool_->reset_peak_stats();
  pool_->reset_accumulated_stats();
  s = pool_->stats();
  expect(s.allocation[0], 1, 1, 0, 0, __LINE__);
  expect(s.active[0], 2, 2, 0, 0, __LINE__);
  expect(s.inactive_split[2], 0, 0, 0, 0, __LINE__);
  EXPECT_EQ(s.num_device_alloc, 0);
  finish();
  pool_->reclaim();
  pool_->free(small);
  s = pool_->stats();
  expect(s.allocation[0], 0, 1, 0, 1, __LINE__);
  expect(s.active[0], 0, 2, 0, 2, __LINE__);
  expect(s.active_bytes[0], 0, 1024 + 3072, 0, 1024 + 3072, __LINE__);
}

TEST_F(MemoryPoolTest, SnapshotCoversSegments) {
  Block* x = pool_->allocate(1000, &a_);
  Block* y = pool_->allocate(2 * kMiB, &b_);
  const auto segments = pool_->snapshot();
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_LT(segments[0].address, segments[1].address);
  for (const SegmentSnapshot& segment : segments) {
    EXPECT_EQ(segment.stream, segment.large ? &b_ : &a_);
    ASSERT_EQ(segment.blocks.size(), 2u);
    EXPECT_EQ(segment.blocks[0].address, (segment.large ? y : x)->address());
    EXPECT_EQ(segment.blocks[0].requested_size, segment.large ? 2 * kMiB : 1000u);
    EXPECT_EQ(segment.blocks[0].state, BlockSnapshot::State::kActive);
    EXPECT_EQ(segment.blocks[1].state, BlockSnapshot::State::kInactive);
    EXPECT_EQ(segment.blocks[0].size + segment.blocks[1].size, segment.size);
    EXPECT_EQ(segment.blocks[1].address, segment.blocks[0].address + segment.blocks[0].size);
  }
  pool_->free(x);
  pool_->free(y);
}

TEST_F(MemoryPoolTest, HistoryKeepsTheLastEventsWithContexts) {
  make(64 * kMiB);
  int captured = 0, destroyed = 0;
  pool_->record_history(100, [&] {
    pool_->stats();  // would hang under the lock
    ++captured;
    return std::shared_ptr<void>(new int(captured), [&](void* p) {
      pool_->stats();
      ++destroyed;
      delete static_cast<int*>(p);
    });
  });
  Block* x = pool_->allocate(2 * kMiB, &a_);
  EXPECT_NE(out_of_memory(64 * kMiB), "");
  pool_->free(x);
  pool_->empty_cache();
  auto events = pool_->history();
  const Action expected[] = {Action::kSegmentAlloc,   Action::kAlloc,         Action::kOom,
                             Action::kFreeRequested, Action::kFreeCompleted, Action::kSegmentFree};
  ASSERT_EQ(events.size(), std::size(expected));
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].action, expected[i]) << i;
    EXPECT_EQ(events[i].context != nullptr, i < 3) << i;
    EXPECT_EQ(events[i].stream, &a_);
    EXPECT_GT(events[i].time_ns, 0);
  }
  EXPECT_EQ(events[1].size, 2 * kMiB);
  EXPECT_EQ(events[2].size, 64 * kMiB);
  events.clear();
  EXPECT_EQ(captured, 2);
  EXPECT_EQ(destroyed, 0);
  for (int i = 0; i < 50; ++i) pool_->free(pool_->allocate(100, &a_));
  EXPECT_EQ(pool_->history().size(), 100u);
  EXPECT_EQ(destroyed, 2 + 17);  // three events for each pair, the newest 100 stay
  pool_->record_history(0, nullptr);
  EXPECT_EQ(destroyed, captured);
  EXPECT_TRUE(pool_->history().empty());
  pool_->free(pool_->allocate(100, &a_));
  EXPECT_EQ(captured, 52);
}

}  // namespace
}  // namespace neuron
