// SPDX-License-Identifier: Apache-2.0
//
// LoweringTest: runs operations on random tensors, alone and fused.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "core/codegen_eager/test_kernels.h"
#include "core/eager_testing.h"
#include "neuron/trace/counters.h"

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

  // Runs what `program` records strictly and then until its kernels are fused ones: all its results
  // must agree to the bit. Returns those of the strict run.
  std::vector<Tensor> run_both(const std::function<std::vector<Tensor>()>& program) {
    const std::vector<Tensor> expected = program();
    run();
    EagerExecutor executor(kernels());
    const int64_t fused = counter("Launch.Fused").value();
    std::vector<Tensor> actual;
    for (int repeat = 0; repeat < 3; ++repeat) {
      actual = program();
      run_window(s.window(), executor, EagerMode::kAdaptive);
      kernels().wait_idle();
    }
    EXPECT_GT(counter("Launch.Fused").value(), fused);
    for (size_t k = 0; k < expected.size(); ++k) expect_same(actual[k], expected[k]);
    return expected;
  }

  static void expect_same(const Tensor& a, const Tensor& b) {
    ASSERT_EQ(a.sizes, b.sizes);
    for (int64_t i = 0; i < a.numel(); ++i) {
      const double x = get(a, i), y = get(b, i);
      ASSERT_TRUE((x == y && std::signbit(x) == std::signbit(y)) ||
                  (std::isnan(x) && std::isnan(y)))
          << "element " << i << ": " << x << " and " << y;
    }
  }

  std::mt19937 random_{7};
  Session s;
};

}  // namespace neuron::test
