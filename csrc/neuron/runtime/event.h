// SPDX-License-Identifier: Apache-2.0
//
// EventState: a point on a stream's timeline, shared by the framework's event object and the records
// that mark or await it.
//
// States: unrecorded (no stream) -> recorded (stream, value). Recording again moves the event to the
// new point; waits recorded earlier keep the point that they saw. The event is reached when
// stream->completed() >= value. Reference counted; all members thread-safe, `mutex` guards the point.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace neuron {

class Stream;

class EventState {
 public:
  explicit EventState(bool timing) : timing_(timing) {}

  struct Point {
    Stream* stream = nullptr;
    uint64_t value = 0;
  };
  Point point() const {
    std::lock_guard lock(mutex_);
    return point_;
  }
  void set_point(Point point) {
    std::lock_guard lock(mutex_);
    point_ = point;
  }
  bool timing() const { return timing_; }

  // Steady-clock nanoseconds at which the last recorded point was passed; 0 before.
  int64_t time_ns() const { return time_ns_.load(std::memory_order_acquire); }
  void set_time_ns(int64_t t) { time_ns_.store(t, std::memory_order_release); }

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  ~EventState() = default;

  const bool timing_;
  mutable std::mutex mutex_;
  Point point_;
  std::atomic<int64_t> time_ns_{0};
  std::atomic<uint32_t> references_{1};
};

}  // namespace neuron
