// SPDX-License-Identifier: Apache-2.0
//
// Distributions: named, process-wide summaries of measured values (count, total, smallest,
// largest).
//
//   static Distribution& time = distribution(kCompilationTime);   // look up once
//   time.add(seconds);
//
// For events that take far longer than a lock. Thread-safe; distributions live until the process
// ends.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace neuron {

inline constexpr std::string_view kCompilationTime = "CompilationTime";  // seconds of one kernel
inline constexpr std::string_view kNeffSize = "NeffSize";                // bytes of one kernel

struct DistributionData {
  std::string name;
  int64_t count = 0;
  double total = 0, smallest = 0, largest = 0;  // 0 while count is 0
};

class Distribution {
 public:
  void add(double value);
  DistributionData data() const;  // without the name
  void clear();

 private:
  mutable std::mutex mutex_;
  DistributionData data_;  // guarded by mutex_
};

// Throws kInternal for a name that is not among those above.
Distribution& distribution(std::string_view name);
std::vector<DistributionData> distributions();
void clear_distributions();

}  // namespace neuron
