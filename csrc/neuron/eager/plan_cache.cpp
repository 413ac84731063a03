// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/plan_cache.h"

#include "neuron/base/error.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

uint64_t hash(const std::vector<uint64_t>& key, bool fuse) {
  uint64_t h = 0x9e3779b97f4a7c15u + (fuse ? 1 : 0);
  for (uint64_t word : key) {
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  return h;
}

}  // namespace

bool PlanCache::fits(CachedPlan* entry, const WindowForm& form) {
  entry->sizes.resize(entry->plan.steps.size());
  for (size_t s = 0; s < entry->plan.steps.size(); ++s) {
    const Step& step = entry->plan.steps[s];
    if (step.host_node < 0 && !step.fused.axes.evaluate(form.nodes, &entry->sizes[s])) return false;
  }
  return true;
}

CachedPlan& PlanCache::get(const WindowForm& form, bool fuse) {
  static Counter& hits = counter("Plan.Hits");
  static Counter& misses = counter("Plan.Misses");
  static Counter& misfits = counter("Plan.SizesDoNotFit");
  static Counter& evictions = counter("Plan.Evictions");
  const uint64_t h = hash(form.key, fuse);
  const auto [first, last] = by_hash_.equal_range(h);
  for (auto i = first; i != last; ++i) {
    CachedPlan& entry = *i->second;
    if (entry.fuse != fuse || entry.key != form.key) continue;
    if (!fits(&entry, form)) {
      misfits.add();
      continue;
    }
    hits.add();
    ++entry.uses;
    entries_.splice(entries_.begin(), entries_, i->second);
    return entry;
  }
  misses.add();
  CachedPlan made;
  made.key = form.key;
  made.fuse = fuse;
  made.plan = make_plan(form, {.fuse = fuse});
  made.uses = 1;
  NEURON_CHECK(fits(&made, form));
  if (entries_.size() == kCapacity) {
    evictions.add();
    const auto victim = std::prev(entries_.end());
    const auto range = by_hash_.equal_range(hash(victim->key, victim->fuse));
    for (auto i = range.first; i != range.second; ++i) {
      if (i->second == victim) {
        by_hash_.erase(i);
        break;
      }
    }
    entries_.erase(victim);
  }
  entries_.push_front(std::move(made));
  by_hash_.emplace(h, entries_.begin());
  return entries_.front();
}

}  // namespace neuron
