// SPDX-License-Identifier: Apache-2.0
//
// Scans and losses against their definitions in double, alone and fused.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/codegen_eager/lowering_testing.h"

namespace neuron {
namespace {

using test::LoweringTest;
using test::Sizes;
using test::Tensor;

class ScanLossTest : public LoweringTest {
 protected:
  void scan(LoweredOp op, const Tensor& x, int64_t dim, const std::vector<Tensor>& outputs,
            DType common) {
    AttributeWriter a;
    a.structural(static_cast<int64_t>(common));
    a.structural(dim);
    s.record(op, {x}, outputs, a);
  }
  void loss(LoweredOp op, const std::vector<Tensor>& inputs, int64_t reduction, const Tensor& out,
            const std::vector<double>& values) {
    AttributeWriter a;
    a.structural(static_cast<int64_t>(out.dtype));
    a.structural(inputs.size() == 3 ? 0b111 : 0b11);
    a.structural(reduction);
    for (double v : values) a.value(v);
    s.record(op, inputs, {out}, a);
  }
  // Elements of `x` along `dim` through element i, up to and with it.
  static std::vector<double> prefix(const Tensor& x, size_t dim, const Sizes& at) {
    std::vector<double> values;
    Sizes p = at;
    for (p[dim] = 0; p[dim] <= at[dim]; ++p[dim]) {
      int64_t i = 0;
      for (size_t d = 0; d < p.size(); ++d) i = i * x.sizes[d] + p[d];
      values.push_back(test::get(x, i));
    }
    return values;
  }
};

TEST_F(ScanLossTest, SumsAndProductsRunInOrder) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kInt64}) {
    const double near = dtype == DType::kBFloat16 ? 0.05 : dtype == DType::kFloat32 ? 1e-5 : 1e-10;
    const Tensor base = random({3, 37, 4}, dtype, -3, 3);
    for (const Tensor& x :
         {base, base.transpose(0, 2), base.slice(1, 3, 20), base.slice(0, 1, 1)}) {
      for (size_t dim = 0; dim < 3; ++dim) {
        const std::vector<Tensor> r = run_both([&] {
          const Tensor sum = s.empty(x.sizes, dtype), product = s.empty(x.sizes, dtype);
          const Tensor doubled = s.empty(x.sizes, dtype);
          scan(LoweredOp::kCumsum, x, static_cast<int64_t>(dim), {sum}, dtype);
          s.pointwise(LoweredOp::kAdd, {sum, sum}, doubled);
          scan(LoweredOp::kCumprod, x, static_cast<int64_t>(dim), {product}, dtype);
          return std::vector<Tensor>{sum, doubled, product};
        });
        for (int64_t i = 0; i < x.numel(); ++i) {
          double sum = 0, product = 1;
          for (double v : prefix(x, dim, test::position(x, i))) {
            sum += v;
            product *= v;
          }
          ASSERT_NEAR(test::get(r[0], i), sum, near * std::max(1.0, std::abs(sum)));
          if (dtype == DType::kInt64 && std::abs(product) > 1e15) continue;
          ASSERT_NEAR(test::get(r[2], i), product, near * std::max(1.0, std::abs(product)));
        }
      }
    }
  }
}

TEST_F(ScanLossTest, ScansOfNarrowIntegersAndTruthCountInWideOnes) {
  const Tensor x = random({50}, DType::kBool, 0, 2), scalar = random({}, DType::kBool, 1, 1);
  const Tensor y = s.empty({50}, DType::kInt64), z = s.empty({}, DType::kInt64);
  scan(LoweredOp::kCumsum, x, 0, {y}, DType::kInt64);
  scan(LoweredOp::kCumsum, scalar, 0, {z}, DType::kInt64);
  run();
  int64_t count = 0;
  for (int64_t i = 0; i < 50; ++i) {
    count += test::get(x, i) != 0;
    EXPECT_EQ(test::get(y, i), static_cast<double>(count));
  }
  EXPECT_EQ(test::get(z, 0), 1);
}

TEST_F(ScanLossTest, ExtremesGiveTheLastOfEqualsAndNan) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt32}) {
    Tensor x = random({6, 40}, dtype, -4, 4);
    for (int64_t i = 0; i < x.numel(); ++i) test::set(x, i, std::round(test::get(x, i)));
    if (is_floating(dtype)) {
      test::set(x, 47, std::nan(""));
      test::set(x, 60, std::nan(""));
    }
    for (const Tensor& view : {x, x.transpose(0, 1)}) {
      for (size_t dim : {0u, 1u}) {
        for (LoweredOp op : {LoweredOp::kCummax, LoweredOp::kCummin}) {
          const Tensor values = s.empty(view.sizes, dtype);
          const Tensor indices = s.empty(view.sizes, DType::kInt64);
          scan(op, view, static_cast<int64_t>(dim), {values, indices}, dtype);
          run();
          for (int64_t i = 0; i < view.numel(); ++i) {
            const std::vector<double> seen = prefix(view, dim, test::position(view, i));
            double best = seen[0];
            size_t place = 0;
            for (size_t k = 1; k < seen.size(); ++k) {
              const bool better = op == LoweredOp::kCummax ? seen[k] >= best : seen[k] <= best;
              if (!std::isnan(seen[k]) && (std::isnan(best) || !better)) continue;
              best = seen[k];
              place = k;
            }
            const double got = test::get(values, i);
            ASSERT_TRUE(got == best || (std::isnan(got) && std::isnan(best)));
            ASSERT_EQ(test::get(indices, i), static_cast<double>(place));
          }
        }
      }
    }
  }
}

struct LossCase {
  LoweredOp op;
  std::function<double(double, double)> f;
  std::vector<double> values;
};

TEST_F(ScanLossTest, LossesReduceInTheirKernel) {
  const LossCase kLosses[] = {
      {LoweredOp::kMseLoss, [](double x, double t) { return (x - t) * (x - t); }, {}},
      {LoweredOp::kSmoothL1Loss,
       [](double x, double t) {
         const double z = std::abs(x - t);
         return z < 0.3 ? 0.5 * z * z / 0.3 : z - 0.15;
       },
       {0.3}},
      {LoweredOp::kHuberLoss,
       [](double x, double t) {
         const double z = std::abs(x - t);
         return z <= 0.3 ? 0.5 * z * z : 0.3 * (z - 0.15);
       },
       {0.3}},
      {LoweredOp::kBinaryCrossEntropy,
       [](double x, double t) { return -t * std::log(x) - (1 - t) * std::log1p(-x); },
       {}},
  };
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const double near = dtype == DType::kBFloat16 ? 0.02 : dtype == DType::kFloat32 ? 1e-5 : 1e-10;
    const Tensor x = random({7, 9}, dtype, 0.05, 0.95), square = random({9, 7}, dtype, 0.05, 0.95);
    const Tensor row = random({9}, dtype, 0.05, 0.95);
    for (const Tensor& target : {square.transpose(0, 1), row}) {
      for (const LossCase& c : kLosses) {
        const bool weighted = c.op == LoweredOp::kBinaryCrossEntropy;
        std::vector<Tensor> operands{x, target};
        if (weighted) operands.push_back(random({7, 1}, dtype, 0.5, 1.5));
        const Tensor none = s.empty({7, 9}, dtype), mean = s.empty({}, dtype),
                     sum = s.empty({}, dtype);
        loss(c.op, operands, 0, none, c.values);
        loss(c.op, operands, 1, mean, c.values);
        loss(c.op, operands, 2, sum, c.values);
        run();
        double total = 0;
        for (int64_t i = 0; i < 63; ++i) {
          const double t = test::get(target, target.sizes.size() == 1 ? i % 9 : i);
          double expected = c.f(test::get(x, i), t);
          if (weighted) expected *= test::get(operands[2], i / 9);
          total += expected;
          ASSERT_NEAR(test::get(none, i), expected, near * std::max(1.0, expected));
        }
        EXPECT_NEAR(test::get(sum, 0), total, near * total);
        EXPECT_NEAR(test::get(mean, 0), total / 63, near * total / 63);
      }
    }
  }
}

TEST_F(ScanLossTest, GradientsOfLossesAreSlopes) {
  const double kNorm = 0.25;
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const double near = dtype == DType::kBFloat16 ? 0.04 : 1e-4;
    const Tensor g = random({90}, dtype, -1, 1), x = random({90}, dtype, 0.05, 0.95);
    const Tensor t = random({90}, dtype, 0.05, 0.95), w = random({90}, dtype, 0.5, 1.5);
    const Tensor smooth = s.empty({90}, dtype), huber = s.empty({90}, dtype);
    const Tensor entropy = s.empty({90}, dtype), weighted = s.empty({90}, dtype);
    s.pointwise(LoweredOp::kSmoothL1LossBackward, {g, x, t}, smooth, {kNorm, 0.3});
    s.pointwise(LoweredOp::kHuberLossBackward, {g, x, t}, huber, {kNorm, 0.3});
    s.pointwise(LoweredOp::kBinaryCrossEntropyBackward, {g, x, t}, entropy, {kNorm});
    s.pointwise(LoweredOp::kBinaryCrossEntropyWeightedBackward, {g, x, t, w}, weighted, {kNorm});
    run();
    for (int64_t i = 0; i < 90; ++i) {
      const double p = test::get(x, i), z = p - test::get(t, i), grad = test::get(g, i) * kNorm;
      const double sign = z < 0 ? -1 : 1;
      const bool inside = std::abs(z) < 0.3;
      ASSERT_NEAR(test::get(smooth, i), inside ? grad * z / 0.3 : grad * sign, near);
      ASSERT_NEAR(test::get(huber, i), inside ? grad * z : grad * sign * 0.3, near);
      const double slope = grad * z / (p * (1 - p));
      ASSERT_NEAR(test::get(entropy, i), slope, near * std::max(1.0, std::abs(slope)));
      ASSERT_NEAR(test::get(weighted, i), slope * test::get(w, i),
                  near * std::max(1.0, std::abs(slope)));
    }
  }
}

}  // namespace
}  // namespace neuron
