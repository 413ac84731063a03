// SPDX-License-Identifier: Apache-2.0
//
// EmulatedTarget: how long a target with a slow compiler would take, so that the policy for one can
// be developed and judged without it (TORCH_NEURONX_EMULATE_COMPILE_MS, ..._LAUNCH_US). It delays;
// what is computed, and by which code, does not change.
//
// An *executable* is what the target compiles and launches as one: a whole window with its host
// calls, or a single operation; its key is the caller's. From the start of its compile it takes
// `base + per_operation * operations`. `workers` compiles run side by side. In the queue, what is
// needed comes before what makes launches fewer, and that before spare executables; the last two
// leave one worker free. A key is compiled once, for the process.
//
// Time is an argument and never goes back, so a test can run it by a clock of its own. Thread-safe.
//
//   EmulatedTarget target({.base = 200ms, .per_operation = 20ms});
//   target.request(key, 25, EmulatedTarget::Urgency::kNeeded, now);
//   if (target.ready(key, later)) target.launch();
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace neuron {

class EmulatedTarget {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  enum class Urgency : uint8_t { kNeeded, kGrowth, kSpare };

  struct Options {
    Duration base{};
    Duration per_operation{};
    Duration launch{};
    size_t workers = 4;
  };

  explicit EmulatedTarget(const Options& options)
      : options_(options), free_at_(options.workers, Time::min()) {}

  // By the configuration; null if nothing is emulated. Lives until the process ends.
  static EmulatedTarget* configured();

  // Queues the compile unless it was asked for before; an earlier request may become more urgent.
  void request(uint64_t key, size_t operations, Urgency urgency, Time now);
  bool known(uint64_t key) const;  // asked for
  bool ready(uint64_t key, Time now);

  // When the next compile ends; Time::max() if none is running.
  Time next_ready(Time now);

  Duration compile_time(size_t operations) const {
    return options_.base + options_.per_operation * static_cast<int64_t>(operations);
  }
  const Options& options() const { return options_; }

  // Takes as long as a launch; keeps no processor busy for most of it.
  void launch() const;

 private:
  struct Executable {
    size_t operations;
    Urgency urgency;
    Time requested;
    Time ready = Time::max();  // max: still queued
  };

  void pump(Time now);  // mutex_ held: starts what free workers have begun by `now`
  Executable* pop(Urgency urgency);

  const Options options_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, Executable> executables_;  // guarded by mutex_
  std::array<std::deque<uint64_t>, 3> queues_;            // guarded; may hold what has started
  std::vector<Time> free_at_;                             // guarded; per worker
};

}  // namespace neuron
