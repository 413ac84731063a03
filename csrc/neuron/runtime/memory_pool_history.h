// SPDX-License-Identifier: Apache-2.0
//
// MemoryHistory: the last events of a memory pool, with what a recorder captured for each.
//
// The recorder may need locks of the layer above (the GIL), and so may the destruction of what it
// returned: `capture` is called without the pool's lock, and contexts that leave the history are
// handed out to be destroyed without it. All other members are guarded by the pool's lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "neuron/runtime/memory_pool.h"

namespace neuron::pool {

using Context = std::shared_ptr<void>;

class MemoryHistory {
 public:
  using Recorder = std::function<Context()>;

  bool on() const { return on_.load(std::memory_order_relaxed); }

  // Calls the recorder; `mutex` is the pool's, not held by the caller.
  Context capture(std::mutex& mutex) const;

  struct State {
    size_t limit = 0;
    std::shared_ptr<const Recorder> recorder;  // nullptr: none
    std::deque<MemoryEvent> events;            // oldest first
  };
  // Exchanges everything, so that the caller can destroy what there was.
  void exchange(State& state) noexcept;
  // Drops the oldest event when full; its context goes to `retired`. Losing an event for want of
  // host memory is counted.
  void add(MemoryEvent event, std::vector<Context>& retired) noexcept;
  std::vector<MemoryEvent> events() const { return {state_.events.begin(), state_.events.end()}; }

 private:
  std::atomic<bool> on_{false};
  State state_;
};

}  // namespace neuron::pool
