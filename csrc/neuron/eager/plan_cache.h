// SPDX-License-Identifier: Apache-2.0
//
// PlanCache: the plans of one stream by window key. A hit compares the whole key and then checks
// that the plan's axes fit the sizes at hand. Keeps the most recent kCapacity plans. Not
// thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "neuron/fuse/fusion.h"

namespace neuron {

struct CachedPlan {
  std::vector<uint64_t> key;
  bool fuse = true;
  Plan plan;
  int64_t uses = 0;
  bool requested = false;  // its kernels were asked for
  bool hurried = false;    // and asked for again, with normal priority
  std::chrono::steady_clock::time_point requested_at{};
  std::vector<std::vector<int64_t>> sizes;  // per step: of the fused kernel's axes, for this window
};

class PlanCache {
 public:
  // The plan for a form, made if there is none; valid until the next call.
  CachedPlan& get(const WindowForm& form, bool fuse);

  static constexpr size_t kCapacity = 4096;

 private:
  static bool fits(CachedPlan* entry, const WindowForm& form);

  using Entries = std::list<CachedPlan>;
  Entries entries_;  // most recently used first
  std::unordered_multimap<uint64_t, Entries::iterator> by_hash_;
};

}  // namespace neuron
