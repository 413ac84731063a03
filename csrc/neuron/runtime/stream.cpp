// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/stream.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "neuron/base/config.h"
#include "neuron/base/cpu.h"
#include "neuron/base/process.h"
#include "neuron/runtime/block.h"
#include "neuron/runtime/device.h"
#include "neuron/runtime/event.h"
#include "neuron/runtime/record_run.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

// Long enough to cover a typical operation, short enough not to starve the thread that runs it.
constexpr auto kHandoffSpin = std::chrono::microseconds(50);
constexpr auto kInterruptPeriod = std::chrono::milliseconds(50);
constexpr int64_t kRecordsBetweenChecks = 64;
constexpr size_t kMaxWindow = 4096;  // a window frees its records when all have run
constexpr uint64_t kWorthALock = 16;
constexpr auto kBetweenLocks = std::chrono::microseconds(10);

bool is_event(OpId op) { return op == OpId::kRecordEvent || op == OpId::kWaitEvent; }

Counter& seal_counter(SealReason reason) {
  static Counter* const counters[] = {
      &counter("Seal.HostRead"),     &counter("Seal.Synchronize"), &counter("Seal.Query"),
      &counter("Seal.DeviceIdle"),   &counter("Seal.BackPressure"), &counter("Seal.Memory"),
      &counter("Seal.Blocking")};
  return *counters[static_cast<size_t>(reason)];
}

}  // namespace

Stream::MakeExecutor Stream::make_executor_ = nullptr;

Stream::Stream(Device& device, int64_t id, int priority)
    : device_(device), id_(id), priority_(priority), open_(std::make_unique<Window>()) {}

uint64_t Stream::record(RecordRequest&& request) {
  check_not_forked();
  const Config& c = config();
  if (submitted() - completed() >= static_cast<uint64_t>(c.max_inflight_ops) ||
      held_bytes_.load(std::memory_order_relaxed) > (c.max_inflight_mb << 20)) [[unlikely]] {
    const uint64_t last = submitted();
    const uint64_t half = static_cast<uint64_t>(c.max_inflight_ops) / 2;
    wait_quietly(last > half ? last - half : last, SealReason::kBackPressure);
  }
  held_bytes_.fetch_add(request.held_bytes, std::memory_order_relaxed);
  uint64_t value;
  {
    std::lock_guard lock(mutex_);
    open_->append(std::move(request));
    value = submitted_.load(std::memory_order_relaxed) + 1;
    submitted_.store(value, std::memory_order_seq_cst);  // pairs with Device::sleep
  }
  device_.notify();
  if (c.launch_blocking) [[unlikely]] wait(value, SealReason::kBlocking);
  return value;
}

void Stream::record_event(EventState& event) {
  event.retain();
  event.set_time_ns(0);
  RecordRequest request;
  request.op = OpId::kRecordEvent;
  request.event = &event;
  // The point is known only after the append; a query in between sees the earlier point, which is
  // the state before this call.
  event.set_point({this, record(std::move(request))});
}

void Stream::wait_event(EventState& event) {
  const EventState::Point point = event.point();
  if (point.stream == nullptr || point.stream == this) return;
  if (point.stream->completed() >= point.value) return;
  event.retain();
  RecordRequest request;
  request.op = OpId::kWaitEvent;
  request.event = &event;
  request.event_value = point.value;
  request.event_stream = point.stream;
  record(std::move(request));
}

bool Stream::query() noexcept {
  if (idle()) return true;
  device_.wake();
  return idle();
}

void Stream::wait(uint64_t value, SealReason reason) {
  check_not_forked();
  if (completed() < value && !wait_loop(value, reason, true)) {
    throw Error(ErrorCode::kInterrupted, "interrupted while waiting for the device");
  }
  if (failed_.load(std::memory_order_acquire)) [[unlikely]] throw_errors(value);
}

void Stream::wait_quietly(uint64_t value, SealReason reason) noexcept {
  if (completed() < value) wait_loop(value, reason, false);
}

bool Stream::wait_loop(uint64_t value, SealReason reason, bool interruptible) noexcept {
  // A few records may be left that take less than the release of a lock; everything beyond is long.
  const WaitHooks& hooks = wait_hooks();
  void* token = hooks.enter != nullptr ? hooks.enter() : nullptr;
  bool reached = true;
  auto next_check = Clock::now() + kInterruptPeriod;
  while (completed() < value) {
    const Progress progress = advance(value, kRecordsBetweenChecks, reason);
    if (progress == Progress::kReached) break;
    if (progress == Progress::kBlocked && !help_blocker()) park(value);
    if (progress == Progress::kBusy) {
      handoff_wanted_.fetch_add(1, std::memory_order_relaxed);
      const auto give_up = Clock::now() + kHandoffSpin;
      while (completed() < value && executor_.load(std::memory_order_relaxed) &&
             Clock::now() < give_up) {
        cpu_pause();
      }
      handoff_wanted_.fetch_sub(1, std::memory_order_relaxed);
      if (executor_.load(std::memory_order_relaxed)) park(value);
    }
    if (interruptible && hooks.interrupted != nullptr && Clock::now() >= next_check) {
      if (completed() < value && hooks.interrupted()) {
        reached = false;
        break;
      }
      next_check = Clock::now() + kInterruptPeriod;
    }
  }
  if (hooks.leave != nullptr) hooks.leave(token);
  return reached;
}

// Runs records of the stream that the next record waits for; true if that got anywhere.
bool Stream::help_blocker() noexcept {
  Stream* blocker = blocker_.load(std::memory_order_acquire);
  if (blocker == nullptr) return true;  // unblocked meanwhile
  const uint64_t value = blocker_value_.load(std::memory_order_acquire);
  switch (blocker->advance(value, kRecordsBetweenChecks, SealReason::kSynchronize)) {
    case Progress::kReached:
    case Progress::kLimit:
      return true;
    case Progress::kBlocked:
      return blocker->help_blocker();
    case Progress::kBusy:
    case Progress::kIdle:
      return false;
  }
  return false;
}

void Stream::park(uint64_t value) noexcept {
  std::unique_lock lock(done_mutex_);
  if (notify_at_.load(std::memory_order_relaxed) > value) {
    notify_at_.store(value, std::memory_order_seq_cst);  // pairs with `complete`
  }
  if (completed_.load(std::memory_order_seq_cst) >= value) return;
  // The bound serves signals, and waiters behind another stream's event.
  done_.wait_for(lock, blocker_.load() != nullptr ? std::chrono::milliseconds(1)
                                                  : std::chrono::milliseconds(20));
}

Stream::Progress Stream::advance(uint64_t until, int64_t limit, SealReason reason) noexcept {
  if (completed() >= until) return Progress::kReached;
  if (executor_.exchange(true, std::memory_order_acquire)) return Progress::kBusy;
  Progress progress = Progress::kLimit;
  const bool takes_over = reason != SealReason::kDeviceIdle;
  const auto started = Clock::now();
  for (int64_t n = 0; n < limit; ++n) {
    uint64_t value = completed_.load(std::memory_order_relaxed);
    if (value >= until) {
      progress = Progress::kReached;
      break;
    }
    if (!takes_over && handoff_wanted_.load(std::memory_order_relaxed) > 0) break;
    // A waiting thread comes back to look for signals, however long its records take.
    if (takes_over && n > 0 && Clock::now() - started >= kInterruptPeriod) break;
    if (!next_window(reason)) {
      progress = Progress::kIdle;
      break;
    }
    const OpRecord& record = (*running_)[cursor_];
    if (!runnable(record)) {
      progress = Progress::kBlocked;
      break;
    }
    const size_t done = run_next(value + 1, takes_over ? name(reason) : nullptr);
    if (done == 0) {
      progress = Progress::kIdle;
      break;
    }
    for (size_t k = 0; k < done; ++k) {
      const int64_t held = (*running_)[cursor_].held_bytes;
      if (held != 0) held_bytes_.fetch_sub(held, std::memory_order_relaxed);
      running_->retire(cursor_++);
    }
    complete(value + done);
  }
  executor_.store(false, std::memory_order_release);
  return progress;
}

bool Stream::next_window(SealReason reason) {
  if (running_ != nullptr && cursor_ < running_->size()) {
    if (make_executor_ != nullptr) extend_window(reason);
    return true;
  }
  std::unique_ptr<Window> finished = std::move(running_);
  cursor_ = end_of_run_ = 0;
  if (finished != nullptr) finished->clear();
  std::lock_guard lock(mutex_);
  if (open_->size() == 0) {
    running_ = nullptr;
    if (finished != nullptr) free_.push_back(std::move(finished));
    return false;
  }
  running_ = std::move(open_);
  if (finished == nullptr && !free_.empty()) {
    finished = std::move(free_.back());
    free_.pop_back();
  }
  open_ = finished != nullptr ? std::move(finished) : std::make_unique<Window>();
  seal_counter(reason).add();
  return true;
}

// Takes what was recorded since into the running window, so that a window can grow up to its cut.
// While the host records, a lock for every operation would slow it down.
void Stream::extend_window(SealReason reason) {
  const uint64_t behind = submitted() - completed_.load(std::memory_order_relaxed);
  const uint64_t recorded = behind - (running_->size() - cursor_);
  if (recorded == 0 || running_->size() >= kMaxWindow) return;
  const auto now = Clock::now();
  if (reason == SealReason::kDeviceIdle && recorded < kWorthALock &&
      now - extended_at_ < kBetweenLocks) {
    return;
  }
  extended_at_ = now;
  std::lock_guard lock(mutex_);
  running_->take(*open_);
}

bool Stream::runnable(const OpRecord& record) {
  if (record.op != OpId::kWaitEvent) return true;
  Stream* other = record.event_stream;
  if (other->completed() >= record.event_value) {
    blocker_.store(nullptr, std::memory_order_release);
    return true;
  }
  blocker_value_.store(record.event_value, std::memory_order_release);
  blocker_.store(other, std::memory_order_release);
  return false;
}

void Stream::execute(const OpRecord& record, uint64_t value) noexcept {
  if (record.op == OpId::kRecordEvent) {
    auto* event = static_cast<EventState*>(record.event);
    if (event->timing()) event->set_time_ns(Clock::now().time_since_epoch().count());
    return;
  }
  if (record.op == OpId::kWaitEvent) return;

  const char* name = record.host != nullptr ? record.host->name() : "";
  const auto error = run_record(record, name, [&] {
    NEURON_CHECK(record.host != nullptr);  // a lowered operation needs an executor
    record.host->run();
  });
  if (error != nullptr) [[unlikely]] add_failure(value, error);
}

void Stream::add_failure(uint64_t value, std::shared_ptr<const Error> error) noexcept {
  std::lock_guard lock(error_mutex_);
  failures_.push_back({value, std::move(error)});
  failed_.store(true, std::memory_order_release);
}

// Runs what is next of the window; returns the number of records, 0 if more should come first.
size_t Stream::run_next(uint64_t value, const char* must_run) noexcept {
  const size_t begin = cursor_;
  if (is_event((*running_)[begin].op) || make_executor_ == nullptr) {
    execute((*running_)[begin], value);
    return 1;
  }
  if (executing_ == nullptr) executing_ = make_executor_(*this);
  end_of_run_ = std::max(end_of_run_, begin);
  while (end_of_run_ < running_->size() && !is_event((*running_)[end_of_run_].op)) ++end_of_run_;
  // An event waits for the records before it.
  if (must_run == nullptr && end_of_run_ < running_->size()) must_run = "StreamOp";
  const size_t count = executing_->next(*running_, begin, end_of_run_, must_run);
  if (count == 0) return 0;
  return executing_->run(*running_, begin, begin + count,
                         [&](size_t record, std::shared_ptr<const Error> error) {
                           add_failure(value + (record - begin), std::move(error));
                         });
}

void Stream::complete(uint64_t value) noexcept {
  completed_.store(value, std::memory_order_seq_cst);  // pairs with `park`
  if (value >= notify_at_.load(std::memory_order_seq_cst)) [[unlikely]] {
    std::lock_guard lock(done_mutex_);
    notify_at_.store(kNever, std::memory_order_relaxed);
    done_.notify_all();
  }
}

void Stream::throw_errors(uint64_t value) {
  std::shared_ptr<const Error> first;
  size_t covered = 0;
  {
    std::lock_guard lock(error_mutex_);
    while (covered < failures_.size() && failures_[covered].value <= value) ++covered;
    if (covered == 0) return;
    first = failures_.front().error;
    failures_.erase(failures_.begin(), failures_.begin() + static_cast<std::ptrdiff_t>(covered));
    failed_.store(!failures_.empty(), std::memory_order_release);
  }
  Error error = *first;
  if (covered > 1) {
    error = Error(first->code(), first->message() + "\n(and " + std::to_string(covered - 1) +
                                     " more failed operations before this wait)");
  }
  throw error;
}

}  // namespace neuron
