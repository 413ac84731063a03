// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/emulated_target.h"

#include <algorithm>
#include <thread>

#include "neuron/base/config.h"
#include "neuron/base/cpu.h"
#include "neuron/trace/counters.h"

namespace neuron {

EmulatedTarget* EmulatedTarget::configured() {
  static EmulatedTarget* const target = []() -> EmulatedTarget* {
    const Config& c = config();
    const EmulatedCompileTime compile = parse_emulated_compile_time(c.emulate_compile_ms);
    if (compile.base_ms == 0 && compile.per_operation_ms == 0 && c.emulate_launch_us == 0) {
      return nullptr;
    }
    const auto duration = [](double ms) {
      return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(ms));
    };
    Options o;
    o.base = duration(compile.base_ms);
    o.per_operation = duration(compile.per_operation_ms);
    o.launch = duration(c.emulate_launch_us / 1000);
    if (c.compile_workers > 0) o.workers = static_cast<size_t>(c.compile_workers);
    return new EmulatedTarget(o);
  }();
  return target;
}

void EmulatedTarget::request(uint64_t key, size_t operations, Urgency urgency, Time now) {
  static Counter* const counters[] = {&counter("Emulated.Compile.Needed"),
                                      &counter("Emulated.Compile.Growth"),
                                      &counter("Emulated.Compile.Spare")};
  std::lock_guard lock(mutex_);
  pump(now);
  const auto [place, inserted] =
      executables_.try_emplace(key, Executable{operations, urgency, now});
  Executable& e = place->second;
  if (!inserted && (e.ready != Time::max() || e.urgency <= urgency)) return;
  e.urgency = urgency;
  queues_[static_cast<size_t>(urgency)].push_back(key);
  if (inserted) counters[static_cast<size_t>(urgency)]->add();
  pump(now);
}

bool EmulatedTarget::known(uint64_t key) const {
  std::lock_guard lock(mutex_);
  return executables_.contains(key);
}

bool EmulatedTarget::ready(uint64_t key, Time now) {
  std::lock_guard lock(mutex_);
  const auto found = executables_.find(key);
  if (found == executables_.end()) return false;
  if (found->second.ready == Time::max()) pump(now);
  return found->second.ready <= now;
}

EmulatedTarget::Time EmulatedTarget::next_ready(Time now) {
  std::lock_guard lock(mutex_);
  pump(now);
  Time next = Time::max();
  for (const Time t : free_at_) {
    if (t > now) next = std::min(next, t);
  }
  return next;
}

EmulatedTarget::Executable* EmulatedTarget::pop(Urgency urgency) {
  std::deque<uint64_t>& queue = queues_[static_cast<size_t>(urgency)];
  while (!queue.empty()) {
    Executable& e = executables_.at(queue.front());
    // Otherwise it has moved to a more urgent queue, and maybe started from there.
    if (e.urgency == urgency && e.ready == Time::max()) return &e;
    queue.pop_front();
  }
  return nullptr;
}

void EmulatedTarget::pump(Time now) {
  for (;;) {
    std::sort(free_at_.begin(), free_at_.end());
    const size_t last_worker = std::min<size_t>(1, free_at_.size() - 1);
    Executable* next = nullptr;
    Time start{};
    // What can start first does; at the same time, what is more urgent.
    for (const Urgency u : {Urgency::kNeeded, Urgency::kGrowth, Urgency::kSpare}) {
      Executable* e = pop(u);
      if (e == nullptr) continue;
      const Time t = std::max(free_at_[u == Urgency::kNeeded ? 0 : last_worker], e->requested);
      if (t > now || (next != nullptr && t >= start)) continue;
      next = e;
      start = t;
    }
    if (next == nullptr) return;
    next->ready = start + compile_time(next->operations);
    free_at_[0] = next->ready;
  }
}

void EmulatedTarget::launch() const {
  static Counter& launches = counter("Emulated.Launch");
  launches.add();
  if (options_.launch == Duration::zero()) return;
  // A sleep ends late by up to this; the rest is spent awake.
  constexpr auto kSleepIsLate = std::chrono::microseconds(80);
  const Time end = std::chrono::steady_clock::now() + options_.launch;
  if (options_.launch > kSleepIsLate) std::this_thread::sleep_until(end - kSleepIsLate);
  while (std::chrono::steady_clock::now() < end) cpu_pause();
}

}  // namespace neuron
