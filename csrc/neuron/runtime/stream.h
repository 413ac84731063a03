// SPDX-License-Identifier: Apache-2.0
//
// Stream: an in-order queue of records with a timeline.
//
// Timeline. The n-th record appended has value n. `submitted()` is the value of the last record
// appended, `completed()` of the last one that has run; completed() >= v means that everything up to
// v has run and its memory effects are visible. Values never decrease and never wrap.
//
// Execution. Records run in order by the one thread that holds the stream's *executor role*, one at a
// time, or as many together as the stream's RecordExecutor takes (with the same visible effects, and
// never across an event). The role is normally the device thread's, but a thread that waits takes the role itself and runs
// the rest (a hand-off between threads costs more than most operations). Recording never wakes a
// thread except out of deep sleep.
//
// Errors. A record that throws poisons its outputs; records that read poison are skipped and pass it
// on. The first error that a wait covers is thrown by that wait, once, and forgotten; poison stays
// with the data. `query`, destructors and waits on behalf of the pool never throw.
//
// Threading. All members may be called from any thread. Records of one thread keep their order;
// those of several threads interleave. `mutex_` guards the open window; what the executor role guards
// is marked so. Streams live until the process ends.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "neuron/base/error.h"
#include "neuron/runtime/record_executor.h"
#include "neuron/runtime/window.h"

namespace neuron {

class Device;
class EventState;

class Stream {
 public:
  // Lower numbers are more urgent, as in CUDA; the range is [kHighPriority, kLowPriority].
  static constexpr int kHighPriority = -1;
  static constexpr int kLowPriority = 0;

  Stream(Device& device, int64_t id, int priority);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  int64_t id() const { return id_; }
  int priority() const { return priority_; }

  // Appends a record and returns its timeline value. Waits while the queue is full. Throws kForked.
  uint64_t record(RecordRequest&& request);

  // Marks `event` at the current end of the stream / makes later records wait for it.
  void record_event(EventState& event);
  void wait_event(EventState& event);

  uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  bool idle() const { return completed() >= submitted(); }

  // True if all has run. Not a wait, but makes sure that somebody works on it.
  bool query() noexcept;
  // Returns when completed() >= value; throws the first unreported error up to there, kInterrupted.
  void wait(uint64_t value, SealReason reason);
  void synchronize() { wait(submitted(), SealReason::kSynchronize); }
  // As `wait`, but leaves errors for the next wait and cannot be interrupted.
  void wait_quietly(uint64_t value, SealReason reason) noexcept;

  // Runs up to `limit` records while their value is at most `until`, if the executor role is free.
  // For device threads and waits.
  enum class Progress { kReached, kLimit, kIdle, kBlocked, kBusy };
  Progress advance(uint64_t until, int64_t limit, SealReason reason) noexcept;

  // Before the first stream runs: what executes records of lowered operations. Without it streams run
  // host calls only.
  using MakeExecutor = std::unique_ptr<RecordExecutor> (*)(const Stream&);
  static void set_executor(MakeExecutor make) { make_executor_ = make; }

 private:
  bool wait_loop(uint64_t value, SealReason reason, bool interruptible) noexcept;
  bool help_blocker() noexcept;
  void park(uint64_t value) noexcept;
  bool next_window(SealReason reason);                            // executor role held
  bool runnable(const OpRecord& record);                          // executor role held
  void execute(const OpRecord& record, uint64_t value) noexcept;  // executor role held
  size_t run_next(uint64_t value, const char* must_run) noexcept; // executor role held
  void extend_window(SealReason reason);                          // executor role held
  void add_failure(uint64_t value, std::shared_ptr<const Error> error) noexcept;
  void complete(uint64_t value) noexcept;
  void throw_errors(uint64_t value);

  static MakeExecutor make_executor_;

  Device& device_;
  const int64_t id_;
  const int priority_;

  std::mutex mutex_;
  std::unique_ptr<Window> open_;              // guarded by mutex_
  std::vector<std::unique_ptr<Window>> free_; // guarded by mutex_, recycled windows
  std::atomic<uint64_t> submitted_{0};        // written under mutex_
  std::atomic<int64_t> held_bytes_{0};        // of records that have not run

  std::atomic<bool> executor_{false};         // the executor role
  std::atomic<int> handoff_wanted_{0};        // waiters that would take the role over
  std::unique_ptr<Window> running_;           // executor role
  std::unique_ptr<RecordExecutor> executing_; // executor role; made at the first use
  std::chrono::steady_clock::time_point extended_at_{};  // executor role
  size_t end_of_run_ = 0;                     // executor role: records of running_ before the next event
  size_t cursor_ = 0;                         // executor role: next record of running_
  std::atomic<Stream*> blocker_{nullptr};     // the stream that the next record waits for
  std::atomic<uint64_t> blocker_value_{0};

  std::atomic<uint64_t> completed_{0};        // written by the executor
  std::mutex done_mutex_;
  std::condition_variable done_;
  std::atomic<uint64_t> notify_at_{std::numeric_limits<uint64_t>::max()};  // lowered under done_mutex_

  struct Failure {
    uint64_t value;
    std::shared_ptr<const Error> error;
  };
  std::mutex error_mutex_;
  std::vector<Failure> failures_;             // guarded by error_mutex_; not yet reported
  std::atomic<bool> failed_{false};           // failures_ is not empty
};

}  // namespace neuron
