// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/device.h"

#include <chrono>
#include <string>

#include "neuron/base/cpu.h"
#include "neuron/base/process.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

using Clock = std::chrono::steady_clock;

// Spinning bridges the gaps between the operations of a running program; dozing lets a slow program
// gather a window without paying for wake-ups; after that only a wake-up helps.
constexpr auto kSpin = std::chrono::microseconds(40);
constexpr auto kDoze = std::chrono::microseconds(100);
constexpr auto kDozeFor = std::chrono::milliseconds(2);
// A blocked stream is released by another device's progress, which does not wake this thread.
constexpr auto kBlockedDoze = std::chrono::milliseconds(1);
constexpr int64_t kRecordsPerTurn = 16;

size_t priority_index(int priority) { return priority < 0 ? 0 : 1; }

}  // namespace

Device::Device(Target& target, int index)
    : target_(target),
      index_(index),
      pool_(target, index, static_cast<size_t>(target.properties(index).total_memory),
            [this] { drain(SealReason::kMemory); }) {
  std::lock_guard lock(streams_mutex_);
  default_stream_ = &add_stream(Stream::kLowPriority);
}

Device::~Device() { stop(); }

Stream& Device::add_stream(int priority) {
  const size_t n = streams_.size();
  if (n == kMaxStreams) {
    throw Error(ErrorCode::kInvalidArgument,
                "too many streams on one device (limit " + std::to_string(kMaxStreams) + ")");
  }
  streams_.push_back(std::make_unique<Stream>(*this, static_cast<int64_t>(n), priority));
  served_[n].store(streams_.back().get(), std::memory_order_relaxed);
  served_count_.store(n + 1, std::memory_order_release);
  return *streams_.back();
}

Stream& Device::pool_stream(int priority) {
  std::lock_guard lock(streams_mutex_);
  const size_t p = priority_index(priority);
  Stream*& slot = pooled_[p][next_pooled_[p]++ % kStreamsPerPriority];
  if (slot == nullptr) {
    slot = &add_stream(p == 0 ? Stream::kHighPriority : Stream::kLowPriority);
  }
  return *slot;
}

Stream& Device::new_stream(int priority) {
  std::lock_guard lock(streams_mutex_);
  return add_stream(priority < 0 ? Stream::kHighPriority : Stream::kLowPriority);
}

Stream& Device::stream(int64_t id) {
  if (id < 0 || static_cast<size_t>(id) >= served_count_.load(std::memory_order_acquire)) {
    throw Error(ErrorCode::kInvalidArgument,
                "no stream with id " + std::to_string(id) + " on neuron:" + std::to_string(index_));
  }
  return *served_[static_cast<size_t>(id)].load(std::memory_order_relaxed);
}

void Device::synchronize() {
  const size_t n = served_count_.load(std::memory_order_acquire);
  for (size_t i = 0; i < n; ++i) served_[i].load(std::memory_order_relaxed)->synchronize();
  pool_.reclaim();
}

void Device::drain(SealReason reason) noexcept {
  const size_t n = served_count_.load(std::memory_order_acquire);
  for (size_t i = 0; i < n; ++i) {
    Stream* stream = served_[i].load(std::memory_order_relaxed);
    stream->wait_quietly(stream->submitted(), reason);
  }
}

void Device::wake() noexcept {
  std::lock_guard lock(sleep_mutex_);
  if (state_ == State::kNotStarted && !stopping_) {
    watch_for_fork();
    thread_ = std::thread([this] { thread_main(); });
    state_ = State::kAwake;
  } else if (state_ == State::kAsleep) {
    state_ = State::kAwake;
    wake_.notify_one();
  }
}

void Device::stop() noexcept {
  if (in_forked_child()) return;
  std::thread thread;
  {
    std::lock_guard lock(sleep_mutex_);
    stopping_ = true;
    thread = std::move(thread_);
    wake_.notify_one();
  }
  if (thread.joinable()) thread.join();
  state_ = State::kStopped;
}

bool Device::pending() const {
  const size_t n = served_count_.load(std::memory_order_acquire);
  for (size_t i = 0; i < n; ++i) {
    const Stream* stream = served_[i].load(std::memory_order_relaxed);
    if (!stream->idle()) return true;
  }
  return false;
}

bool Device::serve() {
  const size_t n = served_count_.load(std::memory_order_acquire);
  for (int priority : {Stream::kHighPriority, Stream::kLowPriority}) {
    bool ran = false;
    for (size_t i = 0; i < n; ++i) {
      Stream* stream = served_[i].load(std::memory_order_relaxed);
      if (stream->priority() != priority || stream->idle()) continue;
      const uint64_t before = stream->completed();
      stream->advance(stream->submitted(), kRecordsPerTurn, SealReason::kDeviceIdle);
      ran |= stream->completed() != before;
    }
    if (ran) return true;
  }
  return false;
}

void Device::thread_main() {
  set_thread_name(("neuron-core-" + std::to_string(index_)).c_str());
  target_.prepare_thread();
  auto last_progress = Clock::now();
  for (;;) {
    if (serve()) {
      last_progress = Clock::now();
      continue;
    }
    const auto idle_for = Clock::now() - last_progress;
    if (idle_for < kSpin) {
      cpu_pause();
      continue;
    }
    std::unique_lock lock(sleep_mutex_);
    const bool work = pending();  // somebody else executes it, or it waits for another stream
    if (stopping_ && !work) return;
    if (idle_for < kDozeFor) {
      wake_.wait_for(lock, kDoze);
    } else if (work) {
      wake_.wait_for(lock, kBlockedDoze);
    } else {
      state_.store(State::kAsleep, std::memory_order_seq_cst);  // pairs with Stream::record
      if (pending()) {
        state_ = State::kAwake;
        continue;
      }
      wake_.wait(lock, [&] { return state_ == State::kAwake || stopping_; });
      state_ = State::kAwake;
      last_progress = Clock::now();
    }
  }
}

}  // namespace neuron
