// SPDX-License-Identifier: Apache-2.0
#include "torch/op_tracking.h"

#include <array>
#include <atomic>
#include <map>

namespace neuron::glue {
namespace {

constexpr size_t kRoutes = static_cast<size_t>(Route::kCount);
constexpr size_t kSlots = 1 << 13;  // PyTorch has about 3,100 native overloads

struct Slot {
  std::atomic<const char*> name{nullptr};
  std::array<std::atomic<int64_t>, kRoutes> calls{};
};

// Open addressing by the name's address; slots are never freed. Equal names at different addresses
// are merged when read.
std::array<Slot, kSlots>& slots() {
  static auto* table = new std::array<Slot, kSlots>;
  return *table;
}

}  // namespace

const char* fallback_reason(Route route) {
  switch (route) {
    case Route::kHostKernel:
      return "no lowering: host kernel, queued";
    case Route::kHostOpQueued:
      return "no kernel for neuron: host kernel, queued";
    case Route::kHostOpWaiting:
      return "no kernel for neuron: host kernel, waits for the device";
    default:
      return nullptr;
  }
}

void count_executed(const char* name, Route route) noexcept {
  auto& table = slots();
  size_t i = (reinterpret_cast<uintptr_t>(name) * 0x9E3779B97F4A7C15ull) >> 51;
  for (size_t probe = 0; probe < kSlots; ++probe, i = (i + 1) % kSlots) {
    const char* found = table[i].name.load(std::memory_order_relaxed);
    if (found == nullptr) {
      if (!table[i].name.compare_exchange_strong(found, name, std::memory_order_relaxed) &&
          found != name) {
        continue;
      }
    } else if (found != name) {
      continue;
    }
    table[i].calls[static_cast<size_t>(route)].fetch_add(1, std::memory_order_relaxed);
    return;
  }
}

std::vector<OpCount> executed_ops() {
  std::map<std::string, OpCount> merged;
  for (Slot& slot : slots()) {
    const char* name = slot.name.load(std::memory_order_relaxed);
    if (name == nullptr) continue;
    auto [it, inserted] = merged.try_emplace(name, OpCount{name, {}});
    for (size_t r = 0; r < kRoutes; ++r) {
      it->second.calls[r] += slot.calls[r].load(std::memory_order_relaxed);
    }
  }
  std::vector<OpCount> result;
  for (auto& [name, count] : merged) {
    int64_t total = 0;
    for (int64_t calls : count.calls) total += calls;
    if (total > 0) result.push_back(std::move(count));
  }
  return result;
}

void clear_op_tracking() {
  for (Slot& slot : slots()) {
    for (auto& calls : slot.calls) calls.store(0, std::memory_order_relaxed);
  }
}

}  // namespace neuron::glue
