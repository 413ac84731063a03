// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/memory_pool_history.h"

#include <new>
#include <utility>

#include "neuron/trace/counters.h"

namespace neuron::pool {

Context MemoryHistory::capture(std::mutex& mutex) const {
  std::shared_ptr<const Recorder> recorder;
  {
    std::lock_guard lock(mutex);
    recorder = state_.recorder;
  }
  return recorder != nullptr ? (*recorder)() : nullptr;
}

void MemoryHistory::exchange(State& state) noexcept {
  std::swap(state_, state);
  on_.store(state_.limit > 0, std::memory_order_relaxed);
}

void MemoryHistory::add(MemoryEvent event, std::vector<Context>& retired) noexcept {
  try {
    if (state_.events.size() == state_.limit) {
      if (state_.events.front().context != nullptr) {
        retired.push_back(std::move(state_.events.front().context));
      }
      state_.events.pop_front();
    }
    state_.events.push_back(std::move(event));
  } catch (const std::bad_alloc&) {
    static Counter& lost = counter("Memory.HistoryLost");
    lost.add();
  }
}

}  // namespace neuron::pool
