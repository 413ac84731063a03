// SPDX-License-Identifier: Apache-2.0
//
// nll_loss in both directions against its definition, and cross-entropy's backward as one kernel.
#include <gtest/gtest.h>

#include <cmath>

#include "core/codegen_eager/indexing_testing.h"
#include "neuron/eager/executor.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

using test::IndexingTest;
using test::Sizes;
using test::Tensor;

constexpr int64_t kIgnored = -100;
enum Reduction : int64_t { kNone, kMean, kSum };

class NllLossTest : public IndexingTest {
 protected:
  static AttributeWriter attributes(int64_t dim, bool weighted, Reduction reduction) {
    AttributeWriter a = words({dim, weighted, reduction});
    a.value(kIgnored);
    return a;
  }

  Tensor scalar(DType dtype) {
    Tensor t = s.empty({1}, dtype);
    t.sizes.clear();
    t.strides.clear();
    return t;
  }

  // Classes with some ignored ones.
  Tensor targets(const Sizes& sizes, int64_t classes, DType dtype = DType::kInt64) {
    Tensor t = indices(sizes, 0, classes, dtype);
    for (int64_t i = 1; i < t.numel(); i += 3) test::set(t, i, static_cast<double>(kIgnored));
    return t;
  }

  // Position in `self` of class `c` for target number `i`.
  static int64_t place(const Tensor& self, size_t dim, const Tensor& target, int64_t i, int64_t c) {
    Sizes at = test::position(target, i);
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(dim), c);
    return linear(self.sizes, at);
  }
};

TEST_F(NllLossTest, ForwardAndBackwardFollowTheDefinition) {
  struct {
    DType dtype;
    double tolerance;
  } const kTypes[] = {{DType::kFloat32, 1e-5}, {DType::kFloat64, 1e-12}, {DType::kBFloat16, 0.02}};
  const std::vector<std::pair<Sizes, size_t>> kShapes = {
      {{29, 7}, 1}, {{3, 7, 5, 4}, 1}, {{7}, 0}, {{1, 7}, 1}, {{2, 7, 33}, 1}};
  for (const auto& type : kTypes) {
    for (const auto& [shape, dim] : kShapes) {
      for (bool weighted : {false, true}) {
        for (Reduction reduction : {kNone, kMean, kSum}) {
          if (shape.size() == 1 && reduction == kNone) continue;  // recorded as a sum
          Sizes rest = shape;
          rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(dim));
          const Tensor self = random(shape, type.dtype, -5, 0);
          const Tensor weight = random({7}, type.dtype, 0.5, 2);
          Tensor target = targets(rest, 7);
          std::vector<Tensor> in{self, target};
          if (weighted) in.push_back(weight);
          const Tensor loss = reduction == kNone ? s.empty(rest, type.dtype) : scalar(type.dtype);
          const Tensor total = scalar(type.dtype);
          std::vector<Tensor> out{loss};
          if (reduction != kNone) out.push_back(total);
          s.record(LoweredOp::kNllLoss, in, out,
                   attributes(static_cast<int64_t>(dim), weighted, reduction));
          run();
          double sum = 0, weights = 0;
          std::vector<double> gradient(static_cast<size_t>(self.numel()), 0);
          for (int64_t i = 0; i < target.numel(); ++i) {
            const auto c = static_cast<int64_t>(test::get(target, i));
            const double w = c == kIgnored ? 0 : weighted ? test::get(weight, c) : 1;
            const double x = c == kIgnored ? 0 : test::get(self, place(self, dim, target, i, c));
            if (reduction == kNone) {
              ASSERT_NEAR(test::get(loss, i), -w * x, type.tolerance * 10);
            }
            sum -= w * x;
            weights += w;
            if (c != kIgnored) {
              gradient[static_cast<size_t>(place(self, dim, target, i, c))] = -w;
            }
          }
          if (reduction != kNone) {
            const double expected = reduction == kMean ? sum / weights : sum;
            ASSERT_NEAR(test::get(total, 0), weights, type.tolerance * std::abs(weights));
            ASSERT_NEAR(test::get(loss, 0), expected, type.tolerance * std::abs(expected));
          }

          const Tensor grad =
              reduction == kNone ? random(rest, type.dtype, -1, 1) : scalar(type.dtype);
          if (reduction != kNone) test::set(grad, 0, 0.75);
          const Tensor grad_self = s.empty(shape, type.dtype);
          std::vector<Tensor> back{grad, target};
          if (weighted) back.push_back(weight);
          if (reduction == kMean) back.push_back(total);
          s.record(LoweredOp::kNllLossBackward, back, {grad_self},
                   attributes(static_cast<int64_t>(dim), weighted, reduction));
          run();
          for (int64_t i = 0; i < target.numel(); ++i) {
            for (int64_t c = 0; c < 7; ++c) {
              const int64_t at = place(self, dim, target, i, c);
              double expected =
                  gradient[static_cast<size_t>(at)] * test::get(grad, reduction == kNone ? i : 0);
              if (reduction == kMean) expected /= weights;
              ASSERT_NEAR(test::get(grad_self, at), expected, type.tolerance * 2);
            }
          }
        }
      }
    }
  }
}

TEST_F(NllLossTest, AllIgnoredGivesNanForTheMeanAndZeroForTheSum) {
  const Tensor self = random({3, 5}, DType::kFloat32, -5, 0);
  const Tensor target = s.empty({3}, DType::kInt64);
  for (int64_t i = 0; i < 3; ++i) test::set(target, i, kIgnored);
  for (Reduction reduction : {kMean, kSum}) {
    const Tensor loss = scalar(DType::kFloat32), total = scalar(DType::kFloat32);
    s.record(LoweredOp::kNllLoss, {self, target}, {loss, total}, attributes(1, false, reduction));
    run();
    EXPECT_EQ(test::get(total, 0), 0);
    EXPECT_EQ(std::isnan(test::get(loss, 0)), reduction == kMean);
  }
}

TEST_F(NllLossTest, ATargetOutOfRangeIsAnErrorOfTheOperation) {
  const Tensor self = random({3, 5}, DType::kFloat32, -5, 0);
  for (int64_t bad : {int64_t{5}, int64_t{-1}, INT64_MAX}) {
    const Tensor target = indices({3}, 0, 5), loss = scalar(DType::kFloat32);
    const Tensor total = scalar(DType::kFloat32);
    target.data<int64_t>()[2] = bad;
    s.record(LoweredOp::kNllLoss, {self, target}, {loss, total}, attributes(1, false, kMean));
    expect_out_of_range("aten::nll_loss_forward", loss);
    EXPECT_TRUE(total.storage->poisoned());
  }
}

TEST_F(NllLossTest, CrossEntropyBackwardIsOneKernel) {
  EagerExecutor executor(test::kernels());
  const Tensor x = random({9, 70}, DType::kFloat32, -4, 4), target = targets({9}, 70);
  const Tensor one = scalar(DType::kFloat32);
  test::set(one, 0, 1);
  std::vector<std::vector<double>> results;
  for (int repeat = 0; repeat < 4; ++repeat) {
    const Tensor output = s.empty({9, 70}), loss = scalar(DType::kFloat32);
    const Tensor total = scalar(DType::kFloat32), gradient = s.empty({9, 70});
    {
      const Tensor grad = s.empty({9, 70});
      s.softmax(LoweredOp::kLogSoftmax, {x}, 1, output);
      s.record(LoweredOp::kNllLoss, {output, target}, {loss, total}, attributes(1, false, kMean));
      s.record(LoweredOp::kNllLossBackward, {one, target, total}, {grad},
               attributes(1, false, kMean));
      s.softmax(LoweredOp::kLogSoftmaxBackward, {grad, output}, 1, gradient);
    }
    if (repeat == 1) {
      const std::string plan = s.plan();
      EXPECT_NE(plan.find("NllLossBackward LogSoftmaxBackward"), std::string::npos) << plan;
    }
    test::run_window(s.window(), executor, repeat == 0 ? EagerMode::kStrict : EagerMode::kAdaptive);
    test::kernels().wait_idle();
    results.push_back(values(gradient));
    results.back().push_back(test::get(loss, 0));
  }
  for (const auto& r : results) EXPECT_EQ(r, results[0]);
  // d loss / d x = (softmax - one_hot) / counted
  double counted = 0;
  for (int64_t i = 0; i < 9; ++i) counted += test::get(target, i) != kIgnored;
  for (int64_t i = 0; i < 9; ++i) {
    double sum = 0;
    for (int64_t c = 0; c < 70; ++c) sum += std::exp(test::get(x, i * 70 + c));
    for (int64_t c = 0; c < 70; ++c) {
      const double t = test::get(target, i);
      double expected = std::exp(test::get(x, i * 70 + c)) / sum - (t == static_cast<double>(c));
      if (t == kIgnored) expected = 0;
      ASSERT_NEAR(results[0][static_cast<size_t>(i * 70 + c)], expected / counted, 1e-6);
    }
  }
}

}  // namespace
}  // namespace neuron
