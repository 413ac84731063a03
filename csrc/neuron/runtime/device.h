// SPDX-License-Identifier: Apache-2.0
//
// Device: one virtual NeuronCore: its memory pool, its streams and the device thread that serves
// them.
//
// The device thread takes the most urgent stream that can make progress, runs a few of its records
// and looks again. When nothing can run it spins for a bounded time, dozes with short timed sleeps
// (work recorded meanwhile gathers in the open windows), and after a while sleeps deeply until a
// record or a wait wakes it. It starts with the first record and ends in Runtime::shutdown.
//
// Threading. All members may be called from any thread. `streams_mutex_` guards the list of streams,
// `sleep_mutex_` the thread's sleep.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "neuron/runtime/memory_pool.h"
#include "neuron/runtime/stream.h"
#include "neuron/target/target.h"

namespace neuron {

class Device {
 public:
  Device(Target& target, int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const { return index_; }
  Target& target() const { return target_; }
  MemoryPool& pool() { return pool_; }

  Stream& default_stream() { return *default_stream_; }
  // The next stream of the pool of that priority, round robin over kStreamsPerPriority.
  Stream& pool_stream(int priority);
  // A stream of its own, for `torch.Stream(device=...)` and external queues.
  Stream& new_stream(int priority);
  // The stream with that id; throws kInvalidArgument.
  Stream& stream(int64_t id);

  // Waits for all streams; throws the first unreported error, kInterrupted.
  void synchronize();
  // As `synchronize`, but leaves errors for the next wait.
  void drain(SealReason reason) noexcept;

  // A record was appended: starts the thread, or wakes it from deep sleep.
  void notify() {
    if (state_.load(std::memory_order_seq_cst) != State::kAwake) [[unlikely]] wake();
  }
  void wake() noexcept;

  // Runs what is queued and ends the thread. Records appended later run in waits only.
  void stop() noexcept;

  static constexpr int kStreamsPerPriority = 16;

 private:
  enum class State : int { kNotStarted, kAwake, kAsleep, kStopped };

  void thread_main();
  bool serve();              // true if something ran
  bool pending() const;      // something can be or become runnable
  Stream& add_stream(int priority);  // streams_mutex_ held

  Target& target_;
  const int index_;
  MemoryPool pool_;
  Stream* default_stream_;

  mutable std::mutex streams_mutex_;
  std::deque<std::unique_ptr<Stream>> streams_;                 // guarded by streams_mutex_
  std::array<std::array<Stream*, kStreamsPerPriority>, 2> pooled_{};  // guarded by streams_mutex_
  std::array<size_t, 2> next_pooled_{};                         // guarded by streams_mutex_
  // What the device thread walks without the lock: append-only, published by the count.
  static constexpr size_t kMaxStreams = 1024;
  std::array<std::atomic<Stream*>, kMaxStreams> served_{};
  std::atomic<size_t> served_count_{0};

  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::atomic<State> state_{State::kNotStarted};  // changed under sleep_mutex_
  bool stopping_ = false;                         // guarded by sleep_mutex_
  std::thread thread_;                            // guarded by sleep_mutex_
};

}  // namespace neuron
