// SPDX-License-Identifier: Apache-2.0
//
// What every target promises about memory: see Target.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "conformance/targets.h"
#include "neuron/base/error.h"
#include "neuron/runtime/device.h"

namespace neuron {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kMiB = size_t{1} << 20;

class MemoryConformance : public ::testing::TestWithParam<testing::TargetCase> {
 protected:
  std::unique_ptr<Target> target_ = GetParam().make();
};

struct Held {
  std::byte* address;
  size_t bytes;
};

TEST_P(MemoryConformance, DescribesItsDevices) {
  EXPECT_STRNE(target_->name(), "");
  ASSERT_GE(target_->device_count(), 1);
  for (int device = 0; device < target_->device_count(); ++device) {
    const DeviceProperties properties = target_->properties(device);
    EXPECT_FALSE(properties.name.empty());
    EXPECT_GT(properties.total_memory, 0);
  }
  EXPECT_THROW(target_->properties(-1), Error);
  EXPECT_THROW(target_->properties(target_->device_count()), Error);
}

TEST_P(MemoryConformance, SegmentsAreAlignedDisjointAndHoldData) {
  std::vector<Held> held;
  for (int device = 0; device < target_->device_count(); ++device) {
    for (size_t bytes : {kPage, 3 * kPage, 2 * kMiB, 2 * kMiB + kPage, 20 * kMiB}) {
      void* address = target_->allocate_segment(device, bytes);
      ASSERT_NE(address, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % kPage, 0u);
      std::memset(address, static_cast<int>(held.size() + 1), bytes);
      held.push_back({static_cast<std::byte*>(address), bytes});
    }
  }
  for (size_t i = 0; i < held.size(); ++i) {
    const auto expected = static_cast<std::byte>(i + 1);
    EXPECT_TRUE(std::all_of(held[i].address, held[i].address + held[i].bytes,
                            [&](std::byte b) { return b == expected; }));
  }
  const size_t per_device = held.size() / static_cast<size_t>(target_->device_count());
  for (size_t i = 0; i < held.size(); ++i) {
    target_->free_segment(static_cast<int>(i / per_device), held[i].address, held[i].bytes);
  }
}

TEST_P(MemoryConformance, TheDeclaredMemoryIsThere) {
  const auto total = static_cast<size_t>(target_->properties(0).total_memory);
  const size_t size = std::max(kPage, total / 8 / kPage * kPage);
  std::vector<void*> segments;
  for (int i = 0; i < 8; ++i) {
    segments.push_back(target_->allocate_segment(0, size));
    ASSERT_NE(segments.back(), nullptr);
  }
  for (void* segment : segments) target_->free_segment(0, segment, size);
}

// Far more than there is in total, touched: what is freed must come back.
TEST_P(MemoryConformance, FreedSegmentsComeBack) {
  for (int i = 0; i < 3000; ++i) {
    auto* address = static_cast<std::byte*>(target_->allocate_segment(0, 32 * kMiB));
    ASSERT_NE(address, nullptr) << i;
    address[0] = address[32 * kMiB - 1] = std::byte{1};
    target_->free_segment(0, address, 32 * kMiB);
  }
}

TEST_P(MemoryConformance, TooMuchIsNotAnException) {
  EXPECT_EQ(target_->allocate_segment(0, size_t{1} << 60), nullptr);
  EXPECT_EQ(target_->allocate_segment(0, SIZE_MAX / kPage * kPage), nullptr);
}

TEST_P(MemoryConformance, InvalidArgumentsThrow) {
  EXPECT_THROW(target_->allocate_segment(0, 0), Error);
  EXPECT_THROW(target_->allocate_segment(0, 100), Error);
  EXPECT_THROW(target_->allocate_segment(-1, kPage), Error);
  EXPECT_THROW(target_->allocate_segment(target_->device_count(), kPage), Error);
}

TEST_P(MemoryConformance, MembersAreThreadSafe) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      target_->prepare_thread();
      const auto mark = static_cast<std::byte>(t + 1);
      for (int i = 0; i < 100; ++i) {
        const int device = (t + i) % target_->device_count();
        const size_t bytes = (static_cast<size_t>(i) % 5 + 1) * kPage;
        auto* address = static_cast<std::byte*>(target_->allocate_segment(device, bytes));
        if (address == nullptr) {
          ++wrong;
          continue;
        }
        std::fill(address, address + bytes, mark);
        std::this_thread::yield();
        if (std::any_of(address, address + bytes, [&](std::byte b) { return b != mark; })) ++wrong;
        target_->free_segment(device, address, bytes);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(MemoryConformance, ADevicesPoolGivesAllAndNoMore) {
  Device device(*target_, 0);
  MemoryPool& pool = device.pool();
  Stream* stream = &device.default_stream();
  EXPECT_EQ(pool.capacity(), static_cast<size_t>(target_->properties(0).total_memory));
  std::vector<Block*> blocks;
  for (;;) {
    try {
      blocks.push_back(pool.allocate(8 * kMiB, stream));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kOutOfMemory);
      break;
    }
    ASSERT_LE(blocks.size() * 8 * kMiB, pool.capacity());
  }
  // At most 4 MiB of every 20 MiB segment are lost to the size.
  EXPECT_GE(blocks.size() * 8 * kMiB, pool.capacity() / 20 * 16 - 20 * kMiB);
  for (Block* block : blocks) pool.free(block);
  pool.free(pool.allocate(pool.capacity() / kMiB * kMiB, stream));
  pool.empty_cache();
  EXPECT_EQ(pool.free_capacity(), pool.capacity());
}

INSTANTIATE_TEST_SUITE_P(Targets, MemoryConformance, ::testing::ValuesIn(testing::all_targets()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace neuron
