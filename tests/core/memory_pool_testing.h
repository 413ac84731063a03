// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the memory pool share: a target that counts its segments and fails on demand,
// and streams that stand still until a gate opens.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "neuron/base/error.h"
#include "neuron/ir/op_record.h"
#include "neuron/runtime/device.h"
#include "neuron/runtime/memory_pool.h"
#include "neuron/runtime/stream.h"
#include "neuron/target/target.h"

namespace neuron::testing {

inline constexpr size_t kKiB = 1024;
inline constexpr size_t kMiB = 1024 * kKiB;

// Segments of ordinary memory, so that AddressSanitizer sees leaks and overflows of segments.
class FakeTarget : public Target {
 public:
  explicit FakeTarget(size_t memory = size_t{1} << 30) : memory_(memory) {}
  ~FakeTarget() override {
    if (!segments_.empty()) std::abort();  // the pool lost a segment
  }

  const char* name() const override { return "fake"; }
  int device_count() const override { return 1; }
  DeviceProperties properties(int) const override {
    return {"Fake", true, static_cast<int64_t>(memory_)};
  }
  void* allocate_segment(int, size_t bytes) override {
    std::lock_guard lock(mutex_);
    if (bytes % 4096 != 0 || held_ + bytes > limit_) return nullptr;
    void* address = std::aligned_alloc(4096, bytes);
    segments_[address] = bytes;
    held_ += bytes;
    return address;
  }
  void free_segment(int, void* address, size_t bytes) override {
    std::lock_guard lock(mutex_);
    const auto found = segments_.find(address);
    if (found == segments_.end() || found->second != bytes) std::abort();  // not what it gave
    segments_.erase(found);
    held_ -= bytes;
    std::free(address);
  }
  void prepare_thread() override {}

  void set_limit(size_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
  }
  size_t held() const {
    std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  const size_t memory_;
  mutable std::mutex mutex_;
  std::map<void*, size_t> segments_;
  size_t held_ = 0;
  size_t limit_ = SIZE_MAX;
};

class Gate {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

// Records an operation that ends when the gate opens.
inline std::shared_ptr<Gate> hold(Stream& stream) {
  class Wait : public HostCall {
   public:
    explicit Wait(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
    void run() override { gate_->wait(); }
    const char* name() const override { return "test::wait"; }

   private:
    const std::shared_ptr<Gate> gate_;
  };
  auto gate = std::make_shared<Gate>();
  RecordRequest request;
  request.host = std::make_unique<Wait>(gate);
  stream.record(std::move(request));
  return gate;
}

// A pool of its own beside the device's, whose drain opens all gates.
class MemoryPoolTest : public ::testing::Test {
 protected:
  void make(size_t capacity) {
    pool_ = std::make_unique<MemoryPool>(target_, 0, capacity, [this] {
      ++drains_;
      for (auto& gate : gates_) gate->open();
      device_.drain(SealReason::kMemory);
    });
  }
  void SetUp() override { make(256 * kMiB); }
  void TearDown() override { finish(); }

  // A stream that stands still until `finish` or a drain.
  void stop(Stream& stream) { gates_.push_back(hold(stream)); }
  void finish() {
    for (auto& gate : gates_) gate->open();
    device_.synchronize();
    gates_.clear();
  }

  // The message of the error that this allocation raises.
  std::string out_of_memory(size_t bytes) {
    try {
      pool_->free(pool_->allocate(bytes, &a_));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kOutOfMemory);
      return e.message();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  Block* found(const void* address) {
    Block* block = pool_->find(address);
    if (block != nullptr) block->release();  // the test's own reference keeps it
    return block;
  }

  FakeTarget target_;
  Device device_{target_, 0};
  Stream& a_ = device_.default_stream();
  Stream& b_ = device_.new_stream(0);
  std::vector<std::shared_ptr<Gate>> gates_;
  int drains_ = 0;
  std::unique_ptr<MemoryPool> pool_;
};

}  // namespace neuron::testing
