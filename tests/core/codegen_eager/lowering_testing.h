// SPDX-License-Identifier: Apache-2.0
//
// LoweringTest: runs single operations on random tensors.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/codegen_eager/test_kernels.h"
#include "core/eager_testing.h"

namespace neuron::test {

class LoweringTest : public ::testing::Test {
 protected:
  Tensor random(const Sizes& sizes, DType dtype, double low, double high) {
    std::uniform_real_distribution<double> uniform(low, high);
    Tensor t = s.empty(sizes, dtype);
    for (int64_t i = 0; i < t.numel(); ++i) set(t, i, uniform(random_));
    return t;
  }

  void run() { run_window(s.window(), EagerMode::kStrict); }

  std::mt19937 random_{7};
  Session s;
};

}  // namespace neuron::test
