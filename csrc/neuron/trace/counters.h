// SPDX-License-Identifier: Apache-2.0
//
// Counters: named, process-wide, monotonic until cleared. Every slow path counts its reason here.
//
//   static Counter& retries = counter("Memory.AllocRetries");   // look up once
//   retries.add();
//
// Names and meanings are in counter_list.h; all of them exist from the start. Looking up takes a
// lock; adding is one relaxed atomic. Counters live until the process ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace neuron {

class Counter {
 public:
  void add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }
  void clear() { value_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

Counter& counter(std::string_view name);
// All counters with their values, by name.
std::vector<std::pair<std::string, int64_t>> counters();
// The names of counter_list.h with their meanings, in the order of the list.
std::vector<std::pair<std::string, std::string>> counter_descriptions();
void clear_counters();

}  // namespace neuron
