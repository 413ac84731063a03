// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/memory_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "core/memory_pool_testing.h"
#include "neuron/base/error.h"
#include "neuron/runtime/memory_pool_chunks.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

using testing::hold;
using testing::kKiB;
using testing::kMiB;
using testing::MemoryPoolTest;

TEST(MemoryPoolSizes, ClassesAreCloseAndStable) {
  EXPECT_EQ(pool::round_request(0), 256u);
  EXPECT_EQ(pool::round_request(256), 256u);
  EXPECT_EQ(pool::round_request(257), 512u);
  EXPECT_EQ(pool::round_request(16 * 256 + 1), 17u * 256);
  EXPECT_EQ(pool::round_request(32 * 256 + 1), 34u * 256);
  EXPECT_EQ(pool::round_request(kMiB), kMiB);
  EXPECT_EQ(pool::round_request(16 * kMiB - 1), 16 * kMiB);
  EXPECT_EQ(pool::round_request(16 * kMiB + 1), 16 * kMiB + 256);
  size_t previous = 0;
  for (size_t bytes = 1; bytes < 20 * kMiB; bytes += 1 + bytes / 97) {
    const size_t rounded = pool::round_request(bytes);
    ASSERT_GE(rounded, bytes);
    ASSERT_GE(rounded, previous);
    ASSERT_EQ(rounded % 256, 0u);
    ASSERT_EQ(pool::round_request(rounded), rounded);
    ASSERT_LE(rounded, std::max(bytes + 255, bytes + bytes / 16 + 1)) << bytes;
    previous = rounded;
  }
}

TEST_F(MemoryPoolTest, BlocksAreAlignedDisjointAndWritable) {
  std::vector<Block*> blocks;
  for (size_t bytes : {size_t{1}, size_t{100}, 4 * kKiB, kMiB - 1, kMiB, 3 * kMiB, 17 * kMiB + 5}) {
    for (int i = 0; i < 3; ++i) {
      Block* block = pool_->allocate(bytes, &a_);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block->address()) % 256, 0u);
      EXPECT_EQ(block->bytes(), bytes);
      EXPECT_TRUE(block->live());
      std::memset(block->address(), static_cast<int>(blocks.size()), bytes);
      blocks.push_back(block);
    }
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto* data = reinterpret_cast<unsigned char*>(blocks[i]->address());
    EXPECT_EQ(data[0], i);
    EXPECT_EQ(data[blocks[i]->bytes() - 1], i);
    pool_->free(blocks[i]);
  }
}

TEST_F(MemoryPoolTest, EmptyBlocksHaveAddressesOfTheirOwn) {
  Block* x = pool_->allocate(0, &a_);
  Block* y = pool_->allocate(0, &a_);
  EXPECT_NE(x->address(), nullptr);
  EXPECT_NE(x->address(), y->address());
  EXPECT_EQ(found(x->address()), x);
  pool_->free(x);
  pool_->free(y);
}

TEST_F(MemoryPoolTest, OwnStreamReusesAtOnceOthersDoNot) {
  stop(a_);
  Block* x = pool_->allocate(5000, &a_);
  std::byte* address = x->address();
  x->retain();  // as a record does
  pool_->free(x);
  EXPECT_FALSE(x->live());
  Block* other = pool_->allocate(5000, &b_);
  Block* again = pool_->allocate(5000, &a_);
  EXPECT_NE(other->address(), address);
  EXPECT_EQ(again->address(), address);
  EXPECT_NE(again, x);
  EXPECT_EQ(x->address(), address);
  x->release();
  pool_->free(other);
  pool_->free(again);
  EXPECT_EQ(drains_, 0);
}

TEST_F(MemoryPoolTest, RecordedStreamsDelayReuse) {
  stop(b_);
  Block* x = pool_->allocate(5000, &a_);
  std::byte* address = x->address();
  pool_->record_stream(x, &b_);
  pool_->record_stream(x, &b_);
  pool_->record_stream(x, &a_);
  pool_->free(x);
  EXPECT_EQ(pool_->stats().allocation[0].current, 0);
  EXPECT_EQ(pool_->stats().active[0].current, 1);
  EXPECT_EQ(pool_->stats().active_bytes[1].current, 5120);
  EXPECT_EQ(found(address), nullptr);
  EXPECT_EQ(pool_->snapshot().at(0).blocks.at(0).state, BlockSnapshot::State::kAwaitingFree);
  Block* y = pool_->allocate(5000, &a_);
  EXPECT_NE(y->address(), address);
  finish();
  Block* z = pool_->allocate(5000, &a_);  // takes back what the timeline has released
  EXPECT_EQ(z->address(), address);
  EXPECT_EQ(pool_->stats().active[0].current, 2);
  EXPECT_EQ(pool_->stats().active[0].peak, 2);
  pool_->free(y);
  pool_->free(z);

  Block* idle = pool_->allocate(5000, &a_);
  pool_->record_stream(idle, &b_);
  pool_->free(idle);  // b has nothing queued
  EXPECT_EQ(pool_->stats().active[0].current, 0);
}

TEST_F(MemoryPoolTest, OneSlowStreamDoesNotHoldTheOthersBack) {
  Stream& c = device_.new_stream(0);
  stop(b_);
  auto gate = hold(c);
  Block* first = pool_->allocate(kMiB, &a_);
  Block* second = pool_->allocate(kMiB, &a_);
  pool_->record_stream(first, &b_);
  pool_->record_stream(second, &c);
  pool_->free(first);
  pool_->free(second);
  gate->open();
  c.synchronize();
  pool_->reclaim();
  EXPECT_EQ(pool_->stats().active[0].current, 1);
  finish();
  pool_->reclaim();
  EXPECT_EQ(pool_->stats().active[0].current, 0);
}

TEST_F(MemoryPoolTest, EmptyCacheKeepsSegmentsWithWorkPending) {
  Block* x = pool_->allocate(30 * kMiB, &a_);
  Block* y = pool_->allocate(100, &b_);
  stop(a_);
  pool_->free(x);
  pool_->free(y);
  pool_->empty_cache();
  EXPECT_EQ(target_.held(), 30 * kMiB);
  finish();
  Block* z = pool_->allocate(kMiB, &a_);
  pool_->empty_cache();
  EXPECT_EQ(target_.held(), 30 * kMiB);  // in use
  pool_->free(z);
  pool_->empty_cache();
  EXPECT_EQ(target_.held(), 0u);
  EXPECT_EQ(pool_->stats().segment[0].current, 0);
  EXPECT_EQ(pool_->stats().num_device_alloc, 2);
  EXPECT_EQ(pool_->stats().num_device_free, 2);
  EXPECT_TRUE(pool_->snapshot().empty());
}

TEST_F(MemoryPoolTest, ForeignMemoryIsReleasedOnTheTimelineOutsideTheLock) {
  std::array<char, 1000> data;
  std::array<char, 10> inner_data;
  int released = 0;
  Block* inner = pool_->adopt(inner_data.data(), inner_data.size(), &a_, [&] { ++released; });
  Block* outer = pool_->adopt(data.data(), data.size(), &a_, [&] {
    ++released;
    EXPECT_EQ(pool_->stats().foreign_bytes, 10);  // would hang if the lock were held
    pool_->free(inner);
  });
  EXPECT_EQ(found(&data[999]), outer);
  EXPECT_EQ(pool_->stats().allocated_bytes[0].current, 1010);
  EXPECT_EQ(pool_->stats().allocated_bytes[1].current, 0);
  EXPECT_EQ(pool_->free_capacity(), pool_->capacity() - 1010);
  stop(a_);
  stop(b_);
  pool_->record_stream(outer, &b_);
  pool_->free(outer);
  EXPECT_EQ(found(&data[999]), nullptr);
  gates_[0]->open();
  a_.synchronize();
  pool_->reclaim();
  EXPECT_EQ(released, 0);  // b still uses it
  finish();
  pool_->reclaim();
  EXPECT_EQ(released, 2);
  EXPECT_EQ(pool_->stats().active[0].current, 0);
  EXPECT_EQ(pool_->stats().reserved_bytes[0].current, 0);
}

TEST_F(MemoryPoolTest, FailingReleaseIsCounted) {
  const int64_t before = counter("Memory.ForeignReleaseFailed").value();
  char data[8];
  pool_->free(pool_->adopt(data, sizeof(data), &a_, [] { throw std::runtime_error("owner"); }));
  EXPECT_EQ(counter("Memory.ForeignReleaseFailed").value(), before + 1);
  EXPECT_EQ(pool_->stats().foreign_bytes, 0);
}

TEST_F(MemoryPoolTest, AwaitedForeignMemoryIsReleasedWithThePool) {
  char data[8];
  int released = 0;
  stop(a_);
  pool_->free(pool_->adopt(data, sizeof(data), &a_, [&] { ++released; }));
  EXPECT_EQ(released, 0);
  finish();
  pool_.reset();
  EXPECT_EQ(released, 1);
}

TEST_F(MemoryPoolTest, AdoptChecksItsArguments) {
  int released = 0;
  EXPECT_THROW(pool_->adopt(nullptr, 8, &a_, [&] { ++released; }), Error);
  pool_->free(pool_->adopt(nullptr, 0, &a_, [&] { released += 10; }));
  EXPECT_EQ(released, 10);
}

TEST_F(MemoryPoolTest, FindsBlocksByAnyAddressInThem) {
  std::vector<Block*> blocks;
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) blocks.push_back(pool_->allocate(random() % 9000, &a_));
  for (int i = 0; i < 8; ++i) blocks.push_back(pool_->allocate(kMiB + random() % kMiB, &a_));
  for (size_t i = 0; i < blocks.size(); i += 3) {
    pool_->free(blocks[i]);
    blocks[i] = nullptr;
  }
  for (Block* block : blocks) {
    if (block == nullptr) continue;
    EXPECT_EQ(found(block->address()), block);
    if (block->bytes() == 0) continue;
    EXPECT_EQ(found(block->address() + random() % block->bytes()), block);
    EXPECT_EQ(found(block->address() + block->bytes() - 1), block);
    if (block->bytes() % 256 != 0) {
      EXPECT_EQ(found(block->address() + block->bytes()), nullptr);
    }
  }
  int on_stack = 0;
  EXPECT_EQ(found(&on_stack), nullptr);
  EXPECT_EQ(found(nullptr), nullptr);
  for (Block* block : blocks) {
    if (block != nullptr) pool_->free(block);
  }
}

TEST_F(MemoryPoolTest, FindsOverlappingForeignBlocks) {
  std::array<char, 100> data;
  Block* part = pool_->adopt(&data[20], 10, &a_, {});
  Block* whole = pool_->adopt(&data[0], 100, &a_, {});
  Block* second = pool_->adopt(&data[60], 10, &a_, {});
  EXPECT_EQ(found(&data[25]), part);
  EXPECT_EQ(found(&data[50]), whole);
  EXPECT_EQ(found(&data[90]), whole);
  pool_->free(part);
  EXPECT_EQ(found(&data[25]), whole);
  EXPECT_EQ(found(&data[90]), whole);
  pool_->free(whole);
  EXPECT_EQ(found(&data[90]), nullptr);
  EXPECT_EQ(found(&data[65]), second);
  pool_->free(second);
}

TEST_F(MemoryPoolTest, EverythingCoalesces) {
  std::mt19937 random(1);
  std::vector<Block*> blocks;
  for (int i = 0; i < 3000; ++i) blocks.push_back(pool_->allocate(random() % 20000, &a_));
  for (int i = 0; i < 30; ++i) blocks.push_back(pool_->allocate(kMiB + random() % kMiB, &a_));
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (Block* block : blocks) pool_->free(block);
  for (const SegmentSnapshot& segment : pool_->snapshot()) {
    ASSERT_EQ(segment.blocks.size(), 1u);
    EXPECT_EQ(segment.blocks[0].size, segment.size);
    EXPECT_EQ(segment.size, segment.large ? 20 * kMiB : 2 * kMiB);
  }
  EXPECT_EQ(pool_->stats().inactive_split[0].current, 0);
  EXPECT_EQ(pool_->stats().inactive_split_bytes[0].current, 0);
}

TEST_F(MemoryPoolTest, ManyThreads) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  std::atomic<int> released{0}, adopted{0};
  std::array<std::array<char, 64>, kThreads> foreign;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Stream* stream = t % 2 == 0 ? &a_ : &b_;
      Stream* other = t % 2 == 0 ? &b_ : &a_;
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::pair<Block*, int>> mine;
      for (int i = 0; i < 3000; ++i) {
        if (mine.size() < 20 && random() % 2 == 0) {
          const size_t bytes = random() % 8 == 0 ? kMiB + random() % kMiB : 1 + random() % 5000;
          Block* block = pool_->allocate(bytes, stream);
          const int mark = static_cast<int>(random() % 256);
          block->address()[0] = block->address()[bytes - 1] = static_cast<std::byte>(mark);
          if (random() % 4 == 0) pool_->record_stream(block, other);
          mine.emplace_back(block, mark);
        } else if (!mine.empty()) {
          std::swap(mine[random() % mine.size()], mine.back());
          const auto [block, mark] = mine.back();
          mine.pop_back();
          if (block->address()[0] != static_cast<std::byte>(mark) ||
              block->address()[block->bytes() - 1] != static_cast<std::byte>(mark)) {
            ++wrong;
          }
          Block* same = pool_->find(block->address());
          if (same != block) ++wrong;
          if (same != nullptr) same->release();
          pool_->free(block);
        }
        if (i % 16 == 0) hold(*stream)->open();
        if (i % 50 == 0) {
          ++adopted;
          pool_->free(pool_->adopt(foreign[static_cast<size_t>(t)].data(), 64, stream,
                                   [&] { ++released; }));
        }
        if (i % 400 == 0) pool_->empty_cache();
        if (i % 300 == 0) pool_->snapshot();
      }
      for (const auto& [block, mark] : mine) pool_->free(block);
    });
  }
  for (auto& thread : threads) thread.join();
  finish();
  pool_->empty_cache();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(released, adopted);
  const MemoryStats stats = pool_->stats();
  EXPECT_EQ(stats.active[0].current, 0);
  EXPECT_EQ(stats.requested_bytes[0].current, 0);
  EXPECT_EQ(stats.reserved_bytes[0].current, 0);
  EXPECT_EQ(target_.held(), 0u);
}

}  // namespace
}  // namespace neuron
