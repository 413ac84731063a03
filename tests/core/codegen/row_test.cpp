// SPDX-License-Identifier: Apache-2.0
//
// Row reductions: several passes over a row, splitting long rows, and the order of summation.
#include "core/codegen/kernel_testing.h"

namespace neuron::testing {
namespace {

LoopNest softmax_nest(DType t, int row_rank = 1) {
  NestBuilder b(Schedule::kRow, 1, row_rank);
  std::vector<Stride> strides(row_rank + 1, kAny);
  strides.back() = kUnit;
  int in = b.operand(t, strides), out = b.operand(t, strides);
  NodeId x = b.cast(kF32, b.load(in));
  NodeId e = b.unary(NestOp::kExp, b.binary(NestOp::kSub, x, b.reduce(NestOp::kReduceMax, x)));
  b.store(out, b.cast(t, b.binary(NestOp::kDiv, e, b.reduce(NestOp::kReduceSum, e))));
  return b.finish();
}

LoopNest sum_nest(Schedule schedule, int parallel, int rows, DType t = kF32) {
  NestBuilder b(schedule, parallel, rows);
  std::vector<Stride> in(parallel + rows, kAny), out(parallel + rows, kZero);
  in.back() = kUnit;
  for (int d = 0; d < parallel; ++d) out[d] = kAny;
  int x = b.operand(t, in), y = b.operand(t, out);
  b.store(y, b.reduce(NestOp::kReduceSum, b.load(x)));
  return b.finish();
}

// The documented order: lanes and accumulators by position, chunks one after the other.
float ordered_sum(const float* x, int64_t n) {
  float total = 0;
  for (int64_t c = 0; c < n; c += kRowChunk) {
    int64_t end = std::min(n, c + kRowChunk);
    float acc[kAccumulators][kLanes] = {};
    int64_t vectors = 0;
    for (int64_t i = c; i < end; i += kLanes, ++vectors)
      for (int64_t lane = 0; lane < kLanes && i + lane < end; ++lane)
        acc[vectors % kAccumulators][lane] += x[i + lane];
    float lanes[kLanes];
    auto a = [&](int k, int64_t lane) { return acc[(vectors + k) % kAccumulators][lane]; };
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = (a(0, lane) + a(1, lane)) + (a(2, lane) + a(3, lane));
    for (int half = kLanes / 2; half >= 1; half /= 2)
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    total += lanes[0];
  }
  return total;
}

TEST(Row, SumFollowsTheDocumentedOrder) {
  TestKernel row(sum_nest(Schedule::kRow, 1, 1)), split(sum_nest(Schedule::kSplit, 1, 1));
  for (int64_t n : {0, 1, 15, 16, 17, 63, 64, 70, 100, 4095, 4096, 4097, 9000}) {
    int64_t rows = 3;
    std::vector<float> x = random_floats(rows * n + 1, 7), y(rows), z(rows);
    row.run({argument(x, {n, 1}), argument(y, {1, 0})}, {rows, n});
    split.run({argument(x, {n, 1}), argument(z, {1, 0})}, {rows, n});
    for (int64_t r = 0; r < rows; ++r) {
      ASSERT_EQ(y[r], ordered_sum(&x[r * n], n)) << n;
      ASSERT_EQ(z[r], y[r]) << "split and row differ at " << n;
    }
  }
}

TEST(Row, FullReductionOfALargeTensor) {
  TestKernel kernel(sum_nest(Schedule::kSplit, 0, 1));
  std::vector<float> x = random_floats(1000003, 9), y(1);
  kernel.run({argument(x, {1}), argument(y, {0})}, {1000003});
  double exact = 0;
  for (float v : x) exact += v;
  EXPECT_EQ(y[0], ordered_sum(x.data(), 1000003));
  EXPECT_NEAR(y[0], exact, 0.05);
}

TEST(Row, SplitAndRowAgreeOverTwoRowDims) {
  TestKernel row(sum_nest(Schedule::kRow, 1, 2)), split(sum_nest(Schedule::kSplit, 1, 2));
  for (auto [n, hw] : {std::array<int64_t, 2>{5, 49}, {300, 49}, {3, 5000}, {1, 1}, {9, 4096}}) {
    int64_t c = 3;
    std::vector<float> x = random_floats(n * c * hw, 11), y(c), z(c);
    row.run({argument(x, {hw, c * hw, 1}), argument(y, {1, 0, 0})}, {c, n, hw});
    split.run({argument(x, {hw, c * hw, 1}), argument(z, {1, 0, 0})}, {c, n, hw});
    for (int64_t k = 0; k < c; ++k) {
      double exact = 0;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < hw; ++j) exact += x[(i * c + k) * hw + j];
      ASSERT_EQ(y[k], z[k]) << n << " " << hw;
      ASSERT_NEAR(y[k], exact, 1e-2);
    }
  }
}

TEST(Row, SoftmaxInEveryFloatType) {
  TestKernel f32(softmax_nest(kF32)), bf16(softmax_nest(kBF16)), f16(softmax_nest(kF16));
  for (int64_t n : {1, 7, 16, 33, 100, 5000}) {
    int64_t rows = 4;
    std::vector<float> x = random_floats(rows * n, 3, -8, 8), y(x.size());
    std::vector<uint16_t> xb = to_bf16(x), yb(x.size()), xh = to_f16(x), yh(x.size());
    f32.run({argument(x, {n, 1}), argument(y, {n, 1})}, {rows, n});
    bf16.run({argument(xb, {n, 1}), argument(yb, {n, 1})}, {rows, n});
    f16.run({argument(xh, {n, 1}), argument(yh, {n, 1})}, {rows, n});
    auto check = [&](auto read, auto result, double tolerance) {
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t k = 0; k < n; ++k) sum += std::exp(read(r * n + k));
        for (int64_t k = 0; k < n; ++k) {
          double expected = std::exp(read(r * n + k)) / sum;
          ASSERT_NEAR(result(r * n + k), expected, tolerance * expected + 1e-7) << n;
        }
      }
    };
    check([&](int64_t k) { return double{x[k]}; }, [&](int64_t k) { return y[k]; }, 2e-6);
    check([&](int64_t k) { return double{bf16_to_float(xb[k])}; },
          [&](int64_t k) { return bf16_to_float(yb[k]); }, 5e-3);
    check([&](int64_t k) { return double{f16_to_float(xh[k])}; },
          [&](int64_t k) { return f16_to_float(yh[k]); }, 1e-3);
  }
}

TEST(Row, SoftmaxInPlaceAndOverTwoRowDims) {
  TestKernel kernel(softmax_nest(kF32, 2));
  int64_t p = 3, q = 5, n = 37;
  std::vector<float> x = random_floats(p * q * n, 3), original = x;
  std::vector<float> copy = x;
  kernel.run({argument(x, {q * n, n, 1}), argument(copy, {q * n, n, 1})}, {p, q, n});
  // In place: both operands are the same memory.
  NestAnalysis analysis(kernel.nest());
  KernelObject object(KernelCompiler::instance().compile(to_text(kernel.nest()), host_features()));
  std::vector<void*> pointers{x.data(), x.data()};
  std::vector<int64_t> extents{p, q, n}, strides{q * n, n, 1, q * n, n, 1};
  launch(object, analysis, {.pointers = pointers, .extents = extents, .strides = strides});
  EXPECT_EQ(x, copy);
  double sum = 0;
  for (int64_t k = 0; k < q * n; ++k) sum += x[k];
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(Row, LayerNormWithItsStatistics) {
  NestBuilder b(Schedule::kRow, 1, 1);
  int in = b.operand(kBF16, {kAny, kUnit}), weight = b.operand(kF32, {kZero, kUnit});
  int out = b.operand(kBF16, {kAny, kUnit}), mean_out = b.operand(kF32, {kUnit, kZero});
  NodeId x = b.cast(kF32, b.load(in)), n = b.cast(kF32, b.extent(1));
  NodeId mean = b.binary(NestOp::kDiv, b.reduce(NestOp::kReduceSum, x), n);
  NodeId d = b.binary(NestOp::kSub, x, mean);
  NodeId var =
      b.binary(NestOp::kDiv, b.reduce(NestOp::kReduceSum, b.binary(NestOp::kMul, d, d)), n);
  NodeId scale = b.unary(NestOp::kRsqrt, b.binary(NestOp::kAdd, var, b.constant(kF32, 1e-5)));
  NodeId y = b.binary(NestOp::kMul, b.binary(NestOp::kMul, d, scale), b.load(weight));
  b.store(out, b.cast(kBF16, y));
  b.store(mean_out, mean);
  TestKernel kernel(b.finish());
  EXPECT_EQ(kernel.analysis().passes(), 3);
  for (int64_t width : {1, 17, 64, 768}) {
    int64_t rows = 5;
    std::vector<float> f = random_floats(rows * width, 13, -3, 5), w = random_floats(width, 14),
                       m(rows);
    std::vector<uint16_t> v = to_bf16(f), r(v.size());
    kernel.run({argument(v, {width, 1}), argument(w, {0, 1}), argument(r, {width, 1}),
                argument(m, {1, 0})},
               {rows, width});
    for (int64_t i = 0; i < rows; ++i) {
      double mu = 0, s = 0;
      for (int64_t k = 0; k < width; ++k) mu += bf16_to_float(v[i * width + k]) / double(width);
      for (int64_t k = 0; k < width; ++k)
        s += std::pow(bf16_to_float(v[i * width + k]) - mu, 2) / double(width);
      ASSERT_NEAR(m[i], mu, 1e-5);
      for (int64_t k = 0; k < width; ++k) {
        double e = (bf16_to_float(v[i * width + k]) - mu) / std::sqrt(s + 1e-5) * w[k];
        ASSERT_NEAR(bf16_to_float(r[i * width + k]), e, 0.01 * std::fabs(e) + 1e-3);
      }
    }
  }
}

TEST(Row, ArgMaxTakesTheFirstAndNaNWins) {
  NestBuilder b(Schedule::kRow, 1, 1);
  int in = b.operand(kF32, {kAny, kUnit}), high = b.operand(kI64, {kUnit, kZero}),
      low = b.operand(kI64, {kUnit, kZero}), value = b.operand(kF32, {kUnit, kZero});
  b.store(high, b.reduce(NestOp::kArgMax, b.load(in)));
  b.store(low, b.reduce(NestOp::kArgMin, b.load(in)));
  b.store(value, b.reduce(NestOp::kReduceMax, b.load(in)));
  TestKernel kernel(b.finish());
  for (int64_t n : {1, 16, 35, 130, 10000}) {
    std::vector<float> x = random_floats(4 * n, 21);
    for (float& v : x) v = std::round(v * 4);  // many ties
    for (int64_t k = 0; k < n; ++k) x[n + k] = -INFINITY;
    x[2 * n + n / 2] = NAN;
    x[3 * n - 1] = NAN;
    std::vector<int64_t> h(4), l(4);
    std::vector<float> m(4);
    kernel.run({argument(x, {n, 1}), argument(h, {1, 0}), argument(l, {1, 0}), argument(m, {1, 0})},
               {4, n});
    for (int64_t r : {0, 1, 3}) {
      auto row = x.begin() + r * n;
      ASSERT_EQ(h[r], std::max_element(row, row + n) - row) << n << " " << r;
      ASSERT_EQ(l[r], std::min_element(row, row + n) - row) << n << " " << r;
      ASSERT_EQ(m[r], *std::max_element(row, row + n));
    }
    ASSERT_EQ(h[2], n / 2);
    ASSERT_EQ(l[2], n / 2);
    ASSERT_TRUE(std::isnan(m[2]));
  }
}

TEST(Row, IntegerAndLogicalReductions) {
  NestBuilder b(Schedule::kSplit, 1, 1);
  int in = b.operand(kI32, {kAny, kUnit}), mask = b.operand(kBool, {kAny, kUnit});
  int sum = b.operand(kI64, {kUnit, kZero}), product = b.operand(kI32, {kUnit, kZero});
  int all = b.operand(kBool, {kUnit, kZero}), any = b.operand(kBool, {kUnit, kZero});
  b.store(sum, b.reduce(NestOp::kReduceSum, b.cast(kI64, b.load(in))));
  b.store(product, b.reduce(NestOp::kReduceProd, b.load(in)));
  b.store(all, b.reduce(NestOp::kReduceAnd, b.load(mask)));
  b.store(any, b.reduce(NestOp::kReduceOr, b.load(mask)));
  TestKernel kernel(b.finish());
  int64_t n = 9001;
  std::vector<int32_t> x(2 * n), p(2);
  std::vector<uint8_t> m(2 * n), t(2), e(2);
  for (int64_t k = 0; k < 2 * n; ++k)
    x[k] = static_cast<int32_t>(k * 7919 % 1000003) | 1, m[k] = k < n;
  m[n - 3] = 0;
  std::vector<int64_t> s(2);
  kernel.run({argument(x, {n, 1}), argument(m, {n, 1}), argument(s, {1, 0}), argument(p, {1, 0}),
              argument(t, {1, 0}), argument(e, {1, 0})},
             {2, n});
  for (int64_t r = 0; r < 2; ++r) {
    int64_t expected = 0;
    uint32_t q = 1;
    for (int64_t k = 0; k < n; ++k)
      expected += x[r * n + k], q *= static_cast<uint32_t>(x[r * n + k]);
    EXPECT_EQ(s[r], expected);
    EXPECT_EQ(static_cast<uint32_t>(p[r]), q);
    EXPECT_EQ(t[r], 0);
    EXPECT_EQ(e[r], r == 0);
  }
}

TEST(Row, CumulativeSumAlongRowsAndColumnsAgree) {
  NestBuilder r(Schedule::kRow, 1, 1), c(Schedule::kSequential, 1, 1);
  int in = r.operand(kF32, {kAny, kUnit}), out = r.operand(kF32, {kAny, kUnit});
  r.store(out, r.scan(NestOp::kScanSum, r.load(in)));
  int cin = c.operand(kF32, {kUnit, kAny}), cout = c.operand(kF32, {kUnit, kAny});
  c.store(cout, c.scan(NestOp::kScanSum, c.load(cin)));
  TestKernel row(r.finish()), column(c.finish());
  for (int64_t n : {1, 16, 50, 4100}) {
    int64_t rows = 19;
    std::vector<float> x = random_floats(rows * n, 31), y(x.size()), xt(x.size()), yt(x.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < n; ++k) xt[k * rows + i] = x[i * n + k];
    row.run({argument(x, {n, 1}), argument(y, {n, 1})}, {rows, n});
    column.run({argument(xt, {1, rows}), argument(yt, {1, rows})}, {rows, n});
    for (int64_t i = 0; i < rows; ++i) {
      float sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        sum += x[i * n + k];
        ASSERT_EQ(y[i * n + k], sum);
        ASSERT_EQ(yt[k * rows + i], sum);
      }
    }
  }
}

}  // namespace
}  // namespace neuron::testing
