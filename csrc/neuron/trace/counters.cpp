// SPDX-License-Identifier: Apache-2.0
#include "neuron/trace/counters.h"

#include <map>
#include <mutex>

#include "neuron/trace/counter_list.h"

namespace neuron {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, Counter, std::less<>> counters;  // guarded by mutex; nodes never move

  Registry() {
#define NEURON_COUNTER_ENTRY(name, meaning) counters.try_emplace(name);
    NEURON_COUNTERS(NEURON_COUNTER_ENTRY)
#undef NEURON_COUNTER_ENTRY
  }
};

Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

}  // namespace

Counter& counter(std::string_view name) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  auto it = r.counters.find(name);
  if (it == r.counters.end()) it = r.counters.try_emplace(std::string(name)).first;
  return it->second;
}

std::vector<std::pair<std::string, int64_t>> counters() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::vector<std::pair<std::string, int64_t>> result;
  for (const auto& [name, c] : r.counters) result.emplace_back(name, c.value());
  return result;
}

std::vector<std::pair<std::string, std::string>> counter_descriptions() {
  return {
#define NEURON_COUNTER_PAIR(name, meaning) {name, meaning},
      NEURON_COUNTERS(NEURON_COUNTER_PAIR)
#undef NEURON_COUNTER_PAIR
  };
}

void clear_counters() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  for (auto& [name, c] : r.counters) c.clear();
}

}  // namespace neuron
