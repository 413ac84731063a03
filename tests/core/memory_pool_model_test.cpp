// SPDX-License-Identifier: Apache-2.0
//
// Random use of a memory pool, checked step by step against a plain model of what it promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "core/memory_pool_testing.h"
#include "neuron/runtime/memory_pool.h"

namespace neuron {
namespace {

using testing::FakeTarget;
using testing::Gate;
using testing::hold;
using testing::kKiB;
using testing::kMiB;

struct Point {
  Stream* stream;
  uint64_t value;
  bool passed() const { return stream->completed() >= value; }
};

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) streams_.push_back({&device_.new_stream(0), {}});
  }

  void step() {
    switch (pick(16)) {
      case 0: case 1: case 2: case 3: case 4: allocate(); break;
      case 5: adopt(); break;
      case 6: case 7: case 8: case 9: case 10: free_one(); break;
      case 11: record_stream(); break;
      case 12: submit(); break;
      case 13: pass(); break;
      case 14: find(); break;
      default:
        if (pick(8) == 0) pool_.empty_cache();
        if (pick(2) == 0) pool_.reclaim();
    }
    ++steps_;
    peak_ = std::max(peak_, live_.size());
    check_counts();
    if (steps_ % 64 == 0) check_snapshot();
  }

  void finish() {
    while (!live_.empty()) free_one();
    drain();
    pool_.reclaim();
    EXPECT_EQ(released_, adopted_);
    check_counts();
    check_snapshot();
    for (const SegmentSnapshot& segment : pool_.snapshot()) EXPECT_EQ(segment.blocks.size(), 1u);
    EXPECT_EQ(pool_.stats().active[0].current, 0);
    EXPECT_EQ(pool_.stats().requested_bytes[0].current, 0);
    EXPECT_EQ(pool_.stats().inactive_split_bytes[0].current, 0);
    pool_.empty_cache();
    EXPECT_EQ(target_.held(), 0u);
    EXPECT_EQ(pool_.stats().reserved_bytes[0].current, 0);
  }

  size_t out_of_memory() const { return out_of_memory_; }

 private:
  struct Live {
    Block* block;
    std::vector<Stream*> others;
    bool foreign;
  };
  struct Freed {  // a range that may not be given to others yet
    std::byte* begin;
    std::byte* end;
    Point own;
    std::vector<Point> others;
  };
  struct Queue {
    Stream* stream;
    std::deque<std::shared_ptr<Gate>> gates;
  };

  size_t pick(size_t n) { return random_() % n; }
  Stream* any_stream() { return streams_[pick(streams_.size())].stream; }

  void drain() {
    for (Queue& queue : streams_) {
      for (auto& gate : queue.gates) gate->open();
      queue.gates.clear();
    }
    device_.drain(SealReason::kMemory);
  }

  void allocate() {
    size_t bytes = 0;
    switch (pick(6)) {
      case 0: bytes = pick(300); break;
      case 1: case 2: bytes = pick(20 * kKiB); break;
      case 3: bytes = pick(kMiB); break;
      case 4: bytes = kMiB + pick(3 * kMiB); break;
      default: bytes = pick(30 * kMiB); break;
    }
    Stream* stream = any_stream();
    Block* block = nullptr;
    try {
      block = pool_.allocate(bytes, stream);
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ErrorCode::kOutOfMemory);
      ++out_of_memory_;
      return;
    }
    std::byte* begin = block->address();
    std::byte* end = begin + std::max<size_t>(1, bytes);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(begin) % 256, 0u);
    ASSERT_EQ(block->bytes(), bytes);
    ASSERT_EQ(block->stream(), stream);
    const auto after = live_.lower_bound(begin);
    if (after != live_.end()) {
      ASSERT_GE(after->first, end);
    }
    if (after != live_.begin()) {
      const Block* before = std::prev(after)->second.block;
      ASSERT_LE(before->address() + before->bytes(), begin);
    }
    for (const Freed& freed : freed_) {
      if (freed.end <= begin || freed.begin >= end) continue;
      ASSERT_TRUE(freed.own.stream == stream || freed.own.passed());
      for (const Point& point : freed.others) ASSERT_TRUE(point.passed());
    }
    begin[0] = std::byte{1};  // AddressSanitizer looks
    end[-1] = std::byte{1};
    live_[begin] = {block, {}, false};
  }

  void adopt() {
    const size_t bytes = 1 + pick(2 * kMiB);
    auto memory = std::make_unique<std::byte[]>(bytes);
    std::byte* address = memory.get();
    try {
      Block* block = pool_.adopt(address, bytes, any_stream(), [this, address] {
        ++released_;
        delete[] address;
      });
      memory.release();
      ++adopted_;
      live_[address] = {block, {}, true};
    } catch (const Error& e) {
      ASSERT_EQ(e.code(), ErrorCode::kOutOfMemory);
      ++out_of_memory_;
    }
  }

  std::map<std::byte*, Live>::iterator any_live() {
    return std::next(live_.begin(), static_cast<ptrdiff_t>(pick(live_.size())));
  }

  void free_one() {
    if (live_.empty()) return;
    const auto chosen = any_live();
    const Live live = chosen->second;
    live_.erase(chosen);
    Freed freed{live.block->address(), live.block->address() + live.block->bytes(),
                {live.block->stream(), live.block->stream()->submitted()}, {}};
    for (Stream* stream : live.others) freed.others.push_back({stream, stream->submitted()});
    std::erase_if(freed_, [](const Freed& f) {
      return f.own.passed() && std::all_of(f.others.begin(), f.others.end(),
                                           [](const Point& p) { return p.passed(); });
    });
    if (!live.foreign) freed_.push_back(freed);
    const size_t released = released_;
    pool_.free(live.block);
    bool passed = freed.own.passed();
    for (const Point& point : freed.others) passed = passed && point.passed();
    if (live.foreign && !passed) {
      ASSERT_EQ(released_, released);
    }
  }

  void record_stream() {
    if (live_.empty()) return;
    Live& live = any_live()->second;
    Stream* stream = any_stream();
    pool_.record_stream(live.block, stream);
    if (stream != live.block->stream()) live.others.push_back(stream);
  }

  void submit() {
    Queue& queue = streams_[pick(streams_.size())];
    queue.gates.push_back(hold(*queue.stream));
  }

  void pass() {
    Queue& queue = streams_[pick(streams_.size())];
    if (queue.gates.empty()) return;
    queue.gates.front()->open();
    queue.gates.pop_front();
    queue.stream->wait(queue.stream->submitted() - queue.gates.size(), SealReason::kSynchronize);
  }

  void find() {
    if (live_.empty()) return;
    const Live& live = any_live()->second;
    const size_t offset = live.block->bytes() == 0 ? 0 : pick(live.block->bytes());
    Block* found = pool_.find(live.block->address() + offset);
    ASSERT_EQ(found, live.block);
    found->release();
  }

  void check_counts() {
    const MemoryStats stats = pool_.stats();
    ASSERT_EQ(stats.allocation[0].current, static_cast<int64_t>(live_.size()));
    ASSERT_EQ(stats.allocation[0].peak, static_cast<int64_t>(peak_));
    ASSERT_EQ(stats.allocation[0].allocated - stats.allocation[0].freed,
              stats.allocation[0].current);
    ASSERT_LE(stats.reserved_bytes[0].peak, static_cast<int64_t>(kCapacity));
    ASSERT_EQ(stats.reserved_bytes[0].current,
              static_cast<int64_t>(target_.held()) + stats.foreign_bytes);
    ASSERT_LE(stats.allocated_bytes[0].current, stats.active_bytes[0].current);
    ASSERT_LE(stats.active_bytes[0].current, stats.reserved_bytes[0].current);
  }

  void check_snapshot() {
    const MemoryStats stats = pool_.stats();
    int64_t active[3] = {}, active_bytes[3] = {}, allocated_bytes[3] = {}, requested[3] = {};
    int64_t pieces[3] = {}, piece_bytes[3] = {}, segments[3] = {}, reserved[3] = {};
    for (const SegmentSnapshot& segment : pool_.snapshot()) {
      std::byte* expected = segment.address;
      bool after_free = false;
      for (const size_t i : {size_t{0}, segment.large ? size_t{2} : size_t{1}}) {
        segments[i] += 1;
        reserved[i] += static_cast<int64_t>(segment.size);
      }
      for (const BlockSnapshot& block : segment.blocks) {
        ASSERT_EQ(block.address, expected);
        expected += block.size;
        const bool is_free = block.state == BlockSnapshot::State::kInactive;
        ASSERT_FALSE(is_free && after_free);
        after_free = is_free;
        const auto size = static_cast<int64_t>(block.size);
        for (const size_t i : {size_t{0}, segment.large ? size_t{2} : size_t{1}}) {
          if (!is_free) {
            active[i] += 1;
            active_bytes[i] += size;
            requested[i] += static_cast<int64_t>(block.requested_size);
            if (block.state == BlockSnapshot::State::kActive) allocated_bytes[i] += size;
          } else if (segment.blocks.size() > 1) {
            pieces[i] += 1;
            piece_bytes[i] += size;
          }
        }
      }
      ASSERT_EQ(expected, segment.address + segment.size);
    }
    for (const size_t i : {1, 2}) {
      EXPECT_EQ(stats.active[i].current, active[i]);
      EXPECT_EQ(stats.active_bytes[i].current, active_bytes[i]);
      EXPECT_EQ(stats.allocated_bytes[i].current, allocated_bytes[i]);
      EXPECT_EQ(stats.requested_bytes[i].current, requested[i]);
      EXPECT_EQ(stats.reserved_bytes[i].current, reserved[i]);
    }
    for (const size_t i : {0, 1, 2}) {
      EXPECT_EQ(stats.segment[i].current, segments[i]);
      EXPECT_EQ(stats.inactive_split[i].current, pieces[i]);
      EXPECT_EQ(stats.inactive_split_bytes[i].current, piece_bytes[i]);
    }
  }

  static constexpr size_t kCapacity = 192 * kMiB;
  std::mt19937 random_;
  FakeTarget target_;
  Device device_{target_, 0};
  std::vector<Queue> streams_;
  MemoryPool pool_{target_, 0, kCapacity, [this] { drain(); }};
  std::map<std::byte*, Live> live_;
  std::vector<Freed> freed_;
  size_t steps_ = 0, peak_ = 0, out_of_memory_ = 0;
  size_t adopted_ = 0, released_ = 0;
};

TEST(MemoryPoolModel, RandomUse) {
  size_t out_of_memory = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    Model model(seed);
    for (int i = 0; i < 2500 && !::testing::Test::HasFatalFailure(); ++i) model.step();
    if (::testing::Test::HasFatalFailure()) return;
    model.finish();
    out_of_memory += model.out_of_memory();
  }
  EXPECT_GT(out_of_memory, 0u);  // the sequences reach the limit
}

}  // namespace
}  // namespace neuron
