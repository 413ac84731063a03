// SPDX-License-Identifier: Apache-2.0
#include "neuron/trace/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "neuron/base/error.h"
#include "neuron/trace/distribution.h"

namespace neuron {
namespace {

TEST(CountersTest, ListedCountersExistWithAMeaning) {
  std::set<std::string> existing, listed;
  for (const auto& [name, value] : counters()) existing.insert(name);
  for (const auto& [name, meaning] : counter_descriptions()) {
    EXPECT_TRUE(existing.contains(name)) << name;
    EXPECT_TRUE(listed.insert(name).second) << name << " is listed twice";
    EXPECT_FALSE(meaning.empty()) << name;
  }
  EXPECT_GT(listed.size(), 10u);
}

TEST(CountersTest, ClearSetsAllToZero) {
  counter("Plan.Hits").add(3);
  EXPECT_GE(counter("Plan.Hits").value(), 3);
  clear_counters();
  for (const auto& [name, value] : counters()) EXPECT_EQ(value, 0) << name;
}

TEST(DistributionTest, SummarisesItsValues) {
  clear_distributions();
  Distribution& d = distribution(kNeffSize);
  for (const double v : {4.0, 1.0, 7.0}) d.add(v);
  const DistributionData data = d.data();
  EXPECT_EQ(data.count, 3);
  EXPECT_EQ(data.total, 12);
  EXPECT_EQ(data.smallest, 1);
  EXPECT_EQ(data.largest, 7);
  const auto all = distributions();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const DistributionData& e) {
    return e.name == kNeffSize && e.count == 3;
  }));
  clear_distributions();
  EXPECT_EQ(d.data().count, 0);
  EXPECT_THROW(distribution("NoSuchName"), Error);
}

}  // namespace
}  // namespace neuron
