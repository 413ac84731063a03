// SPDX-License-Identifier: Apache-2.0
//
// Reductions, softmax and layer norm through their kernels, against their definitions in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/codegen_eager/lowering_testing.h"

namespace neuron {
namespace {

using test::LoweringTest;
using test::Sizes;
using test::Tensor;

struct ReductionCase {
  LoweredOp op;
  std::function<double(const std::vector<double>&)> f;
};

double sum(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }
double mean(const std::vector<double>& v) { return sum(v) / static_cast<double>(v.size()); }
double variance(const std::vector<double>& v) {
  double total = 0;
  for (double x : v) total += (x - mean(v)) * (x - mean(v));
  return total / (static_cast<double>(v.size()) - 1);
}
double norm(const std::vector<double>& v, double p) {
  double total = 0;
  for (double x : v) total += std::pow(std::abs(x), p);
  return std::pow(total, 1 / p);
}

TEST_F(LoweringTest, ReductionsOverAnyDims) {
  const ReductionCase kReductions[] = {
      {LoweredOp::kSum, sum},
      {LoweredOp::kMean, mean},
      {LoweredOp::kProd,
       [](const auto& v) {
         double p = 1;
         for (double x : v) p *= x;
         return p;
       }},
      {LoweredOp::kAmax, [](const auto& v) { return *std::max_element(v.begin(), v.end()); }},
      {LoweredOp::kAmin, [](const auto& v) { return *std::min_element(v.begin(), v.end()); }},
      {LoweredOp::kVar, variance},
      {LoweredOp::kStd, [](const auto& v) { return std::sqrt(variance(v)); }},
      {LoweredOp::kNorm1, [](const auto& v) { return norm(v, 1); }},
      {LoweredOp::kNorm2, [](const auto& v) { return norm(v, 2); }},
      {LoweredOp::kNormInf,
       [](const auto& v) {
         double m = 0;
         for (double x : v) m = std::max(m, std::abs(x));
         return m;
       }},
      {LoweredOp::kLogsumexp,
       [](const auto& v) {
         double total = 0;
         for (double x : v) total += std::exp(x);
         return std::log(total);
       }},
  };
  const Tensor x = random({3, 5, 4}, DType::kFloat32, -1.5, 1.5);
  for (const Tensor& view : {x, x.transpose(0, 2), x.slice(1, 1, 3)}) {
    for (const ReductionCase& c : kReductions) {
      for (int mask = 1; mask < 8; ++mask) {
        std::vector<size_t> dims;
        Sizes sizes = view.sizes;
        for (size_t d = 0; d < 3; ++d) {
          if ((mask >> d & 1) == 0) continue;
          dims.push_back(d);
          sizes[d] = 1;
        }
        const Tensor y = s.empty(sizes);
        const bool spread = c.op == LoweredOp::kVar || c.op == LoweredOp::kStd;
        s.reduce(c.op, view, dims, true, {y},
                 spread ? std::vector<double>{1} : std::vector<double>{});
        run();
        for (int64_t i = 0; i < y.numel(); ++i) {
          const Sizes at = test::position(y, i);
          std::vector<double> group;
          for (int64_t k = 0; k < view.numel(); ++k) {
            const Sizes from = test::position(view, k);
            bool same = true;
            for (size_t d = 0; d < 3; ++d) same &= (mask >> d & 1) != 0 || from[d] == at[d];
            if (same) group.push_back(test::get(view, k));
          }
          ASSERT_NEAR(test::get(y, i), c.f(group), 2e-5) << op_info(op_id(c.op)).id << " " << mask;
        }
      }
    }
  }
}

TEST_F(LoweringTest, PositionsAndTruthOfReductions) {
  const Tensor x = random({6, 9}, DType::kFloat32, -1, 1);
  const Tensor values = s.empty({6}), indices = s.empty({6}, DType::kInt64);
  s.reduce(LoweredOp::kMaxDim, x, {1}, false, {values, indices});
  const Tensor flat = s.empty({}, DType::kInt64);
  s.reduce(LoweredOp::kArgmin, x.transpose(0, 1), {0, 1}, false, {flat});
  const Tensor any = s.empty({}, DType::kBool), all = s.empty({}, DType::kBool);
  s.reduce(LoweredOp::kAny, x, {0, 1}, false, {any});
  s.reduce(LoweredOp::kAll, x, {0, 1}, false, {all});
  run();
  int64_t smallest = 0;
  for (int64_t r = 0; r < 6; ++r) {
    int64_t best = 0;
    for (int64_t k = 0; k < 9; ++k) {
      if (test::get(x, r * 9 + k) > test::get(x, r * 9 + best)) best = k;
      if (test::get(x, r * 9 + k) < test::get(x, smallest)) smallest = r * 9 + k;
    }
    EXPECT_EQ(test::get(indices, r), static_cast<double>(best));
    EXPECT_EQ(test::get(values, r), test::get(x, r * 9 + best));
  }
  EXPECT_EQ(test::get(flat, 0), static_cast<double>(smallest % 9 * 6 + smallest / 9));
  EXPECT_EQ(test::get(any, 0), 1);
  EXPECT_EQ(test::get(all, 0), 1);
}

TEST_F(LoweringTest, SoftmaxAlongEitherDimAndItsGradient) {
  for (size_t dim : {0u, 1u}) {
    const Tensor x = random({7, 21}, DType::kFloat32, -4, 4),
                 g = random({7, 21}, DType::kFloat32, -1, 1);
    const Tensor y = s.empty({7, 21}), l = s.empty({7, 21}), dx = s.empty({7, 21}),
                 dl = s.empty({7, 21});
    const auto d = static_cast<int64_t>(dim);
    s.softmax(LoweredOp::kSoftmax, {x}, d, y);
    s.softmax(LoweredOp::kLogSoftmax, {x}, d, l);
    s.softmax(LoweredOp::kSoftmaxBackward, {g, y}, d, dx);
    s.softmax(LoweredOp::kLogSoftmaxBackward, {g, l}, d, dl);
    run();
    for (int64_t i = 0; i < x.numel(); ++i) {
      const Sizes at = test::position(x, i);
      double total = 0, weighted = 0, plain = 0;
      for (int64_t k = 0; k < x.sizes[dim]; ++k) {
        Sizes p = at;
        p[dim] = k;
        const int64_t e = p[0] * 21 + p[1];
        total += std::exp(test::get(x, e));
        weighted += test::get(g, e) * std::exp(test::get(x, e));
        plain += test::get(g, e);
      }
      const double probability = std::exp(test::get(x, i)) / total;
      EXPECT_NEAR(test::get(y, i), probability, 1e-6);
      EXPECT_NEAR(test::get(l, i), std::log(probability), 1e-5);
      EXPECT_NEAR(test::get(dx, i), probability * (test::get(g, i) - weighted / total), 1e-6);
      EXPECT_NEAR(test::get(dl, i), test::get(g, i) - probability * plain, 1e-5);
    }
  }
}

TEST_F(LoweringTest, LayerNormAndItsGradients) {
  constexpr int64_t kRows = 6, kWidth = 37;
  const Tensor x = random({2, 3, kWidth}, DType::kFloat32, -2, 2);
  const Tensor w = random({kWidth}, DType::kFloat32, 0.5, 1.5),
               b = random({kWidth}, DType::kFloat32, -1, 1);
  const Tensor g = random({2, 3, kWidth}, DType::kFloat32, -1, 1);
  const Tensor y = s.empty(x.sizes), mean = s.empty({2, 3, 1}), rstd = s.empty({2, 3, 1});
  const Tensor dx = s.empty(x.sizes), dw = s.empty({kWidth}), db = s.empty({kWidth});
  s.layer_norm(x, w, b, 1, 1e-5, y, mean, rstd);
  s.layer_norm_backward({g, x, mean, rstd, w}, 1, 0b111, {dx, dw, db});
  run();
  std::vector<double> expected_dw(kWidth), expected_db(kWidth);
  for (int64_t r = 0; r < kRows; ++r) {
    double m = 0, v = 0, along = 0, drift = 0;
    const auto at = [&](const Tensor& t, int64_t k) { return test::get(t, r * kWidth + k); };
    for (int64_t k = 0; k < kWidth; ++k) m += at(x, k) / kWidth;
    for (int64_t k = 0; k < kWidth; ++k) v += (at(x, k) - m) * (at(x, k) - m) / kWidth;
    const double scale = 1 / std::sqrt(v + 1e-5);
    EXPECT_NEAR(test::get(mean, r), m, 1e-6);
    EXPECT_NEAR(test::get(rstd, r), scale, 1e-5);
    for (int64_t k = 0; k < kWidth; ++k) {
      const double normal = (at(x, k) - m) * scale, gw = at(g, k) * test::get(w, k);
      along += gw * normal / kWidth;
      drift += gw / kWidth;
      expected_dw[static_cast<size_t>(k)] += at(g, k) * normal;
      expected_db[static_cast<size_t>(k)] += at(g, k);
      EXPECT_NEAR(at(y, k), normal * test::get(w, k) + test::get(b, k), 1e-5);
    }
    for (int64_t k = 0; k < kWidth; ++k) {
      const double normal = (at(x, k) - m) * scale, gw = at(g, k) * test::get(w, k);
      EXPECT_NEAR(at(dx, k), scale * (gw - drift - normal * along), 2e-5);
    }
  }
  for (int64_t k = 0; k < kWidth; ++k) {
    EXPECT_NEAR(test::get(dw, k), expected_dw[static_cast<size_t>(k)], 2e-5);
    EXPECT_NEAR(test::get(db, k), expected_db[static_cast<size_t>(k)], 2e-5);
  }
}

}  // namespace
}  // namespace neuron
