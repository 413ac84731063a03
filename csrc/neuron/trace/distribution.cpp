// SPDX-License-Identifier: Apache-2.0
#include "neuron/trace/distribution.h"

#include <algorithm>
#include <array>

#include "neuron/base/error.h"

namespace neuron {
namespace {

constexpr std::array kNames{kCompilationTime, kNeffSize};

std::array<Distribution, kNames.size()>& all() {
  static auto* instance = new std::array<Distribution, kNames.size()>;
  return *instance;
}

}  // namespace

void Distribution::add(double value) {
  std::lock_guard lock(mutex_);
  data_.smallest = data_.count == 0 ? value : std::min(data_.smallest, value);
  data_.largest = data_.count == 0 ? value : std::max(data_.largest, value);
  data_.total += value;
  ++data_.count;
}

DistributionData Distribution::data() const {
  std::lock_guard lock(mutex_);
  return data_;
}

void Distribution::clear() {
  std::lock_guard lock(mutex_);
  data_ = {};
}

Distribution& distribution(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  NEURON_CHECK(found != kNames.end());
  return all()[static_cast<size_t>(found - kNames.begin())];
}

std::vector<DistributionData> distributions() {
  std::vector<DistributionData> result;
  for (size_t i = 0; i < kNames.size(); ++i) {
    result.push_back(all()[i].data());
    result.back().name = kNames[i];
  }
  return result;
}

void clear_distributions() {
  for (Distribution& d : all()) d.clear();
}

}  // namespace neuron
