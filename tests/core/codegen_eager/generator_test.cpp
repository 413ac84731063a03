// SPDX-License-Identifier: Apache-2.0
//
// Operations whose elements follow from their positions, and random ones, against scalar models.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>

#include "core/codegen_eager/lowering_testing.h"

namespace neuron {
namespace {

using test::LoweringTest;
using test::Sizes;
using test::Tensor;

constexpr uint64_t kSeed = 0x123456789abcdef0, kOffset = 77;

std::array<uint32_t, 4> philox(uint64_t key, uint64_t low, uint64_t high) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                               static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

class GeneratorTest : public LoweringTest {
 protected:
  AttributeWriter words(DType common, uint64_t scalars = 0) {
    AttributeWriter a;
    a.structural(static_cast<int64_t>(common));
    a.structural(static_cast<int64_t>(scalars));
    return a;
  }
  static void add_seed(AttributeWriter* a) {
    a->value(static_cast<int64_t>(kSeed));
    a->value(static_cast<int64_t>(kOffset));
  }
  // Contiguous, transposed, and with gaps.
  std::vector<Tensor> layouts(DType dtype) {
    return {s.empty({3, 5, 7}, dtype), s.empty({7, 5, 3}, dtype).transpose(0, 2),
            s.empty({3, 9, 7}, dtype).slice(1, 2, 5), s.empty({105}, dtype), s.empty({}, dtype)};
  }
  void random_fill(LoweredOp op, const Tensor& out, DType common,
                   const std::vector<double>& values) {
    AttributeWriter a = words(common);
    add_seed(&a);
    for (double v : values) a.value(v);
    s.record(op, {}, {out}, a);
  }
  // A normal fill with scalars.
  void normal(const Tensor& out, double mean, double spread) {
    AttributeWriter a = words(out.dtype, 0b11);
    a.value(mean);
    a.value(spread);
    add_seed(&a);
    s.record(LoweredOp::kNormal, {}, {out}, a);
  }
};

double low_fraction(uint64_t bits, int digits) {
  return std::ldexp(static_cast<double>(bits & ((uint64_t{1} << digits) - 1)), -digits);
}
uint64_t joined(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

TEST_F(GeneratorTest, ArangeCountsInEveryType) {
  for (DType dtype : {DType::kInt8, DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64,
                      DType::kBFloat16, DType::kFloat16}) {
    for (const Tensor& out : layouts(dtype)) {
      const bool floating = is_floating(dtype);
      AttributeWriter a = words(dtype);
      if (floating) {
        a.value(-2.5);
        a.value(0.1);
      } else {
        a.value(int64_t{-7});
        a.value(int64_t{1});
      }
      s.record(LoweredOp::kArange, {}, {out}, a);
      run();
      for (int64_t i = 0; i < out.numel(); ++i) {
        const double expected =
            floating ? -2.5 + static_cast<double>(i) * 0.1 : static_cast<double>(i - 7);
        const double ulp = dtype == DType::kBFloat16  ? 1.0 / 128
                           : dtype == DType::kFloat16 ? 1.0 / 1024
                                                      : 1e-6;
        ASSERT_NEAR(test::get(out, i), expected, floating ? std::abs(expected) * ulp : 0)
            << name(dtype) << " " << i;
        if (dtype == DType::kFloat32) {
          ASSERT_EQ(test::get(out, i), static_cast<float>(expected));
        }
      }
    }
  }
}

TEST_F(GeneratorTest, ArangeOfLargeIntegersIsExact) {
  const Tensor out = s.empty({40}, DType::kInt64);
  AttributeWriter a = words(DType::kInt64);
  a.value((int64_t{1} << 62) + 1);
  a.value(int64_t{-3});
  s.record(LoweredOp::kArange, {}, {out}, a);
  run();
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(out.data<int64_t>()[i], (int64_t{1} << 62) + 1 - 3 * i);
  }
}

TEST_F(GeneratorTest, LinspaceHitsBothEnds) {
  for (DType dtype : {DType::kInt32, DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    for (int64_t n : {1, 2, 17, 100}) {
      const Tensor out = s.empty({n}, dtype);
      AttributeWriter a = words(dtype);
      if (is_floating(dtype)) {
        a.value(-1.25);
        a.value(6.5);
      } else {
        a.value(int64_t{-4});
        a.value(int64_t{50});
      }
      s.record(LoweredOp::kLinspace, {}, {out}, a);
      run();
      const double from = is_floating(dtype) ? -1.25 : -4, to = is_floating(dtype) ? 6.5 : 50;
      EXPECT_EQ(test::get(out, 0), from);
      if (n > 1) {
        EXPECT_EQ(test::get(out, n - 1), to);
      }
      for (int64_t i = 1; i < n; ++i) {
        const double step = (to - from) / static_cast<double>(n - 1);
        const double exact = i < n / 2 ? from + step * static_cast<double>(i)
                                       : to - step * static_cast<double>(n - 1 - i);
        const double expected = is_floating(dtype) ? exact : std::trunc(exact);
        ASSERT_NEAR(test::get(out, i), expected, dtype == DType::kBFloat16 ? 0.03 : 2e-6);
      }
    }
  }
}

TEST_F(GeneratorTest, TrianglesAndIdentityKeepTheirDims) {
  const std::vector<Sizes> shapes = {{6, 9}, {2, 3, 5, 4}, {4, 1}, {1, 4}, {1, 1}, {2, 1, 7}};
  for (const Sizes& shape : shapes) {
    for (DType dtype : {DType::kFloat32, DType::kInt64, DType::kBool, DType::kBFloat16}) {
      for (bool transposed : {false, true}) {
        Tensor x = random(shape, dtype, 1, 9);
        Tensor out = s.empty(shape, dtype);
        if (transposed) {
          Sizes swapped = shape;
          std::swap(swapped[shape.size() - 1], swapped[shape.size() - 2]);
          x = random(swapped, dtype, 1, 9).transpose(shape.size() - 1, shape.size() - 2);
          out = s.empty(swapped, dtype).transpose(shape.size() - 1, shape.size() - 2);
        }
        for (int64_t diagonal : {-1, 0, 2}) {
          for (LoweredOp op : {LoweredOp::kTril, LoweredOp::kTriu}) {
            AttributeWriter a = words(dtype);
            a.value(diagonal);
            s.record(op, {x}, {out}, a);
            run();
            for (int64_t i = 0; i < out.numel(); ++i) {
              const Sizes at = test::position(out, i);
              const int64_t d = at[at.size() - 1] - at[at.size() - 2];
              const bool kept = op == LoweredOp::kTril ? d <= diagonal : d >= diagonal;
              ASSERT_EQ(test::get(out, i), kept ? test::get(x, i) : 0);
            }
          }
        }
        if (shape.size() > 2) continue;
        s.record(LoweredOp::kEye, {}, {out}, words(dtype));
        run();
        for (int64_t i = 0; i < out.numel(); ++i) {
          const Sizes at = test::position(out, i);
          ASSERT_EQ(test::get(out, i), at[0] == at[1]);
        }
      }
    }
  }
}

TEST_F(GeneratorTest, PositionsSurviveFusionIntoOtherWalks) {
  // A causal mask: ones of one dim meet a triangle of two, then a softmax along either dim.
  const Tensor scores = random({24, 24}, DType::kFloat32, -2, 2);
  for (const Tensor& x : {scores, scores.transpose(0, 1)}) {
    run_both([&] {
      const Tensor ones = s.empty({24, 24}), mask = s.empty({24, 24}), ramp = s.empty({24, 24});
      const Tensor sum = s.empty({24, 24}), product = s.empty({24, 24}), y = s.empty({24, 24});
      s.fill(ones, 1);
      AttributeWriter diagonal = words(DType::kFloat32);
      diagonal.value(int64_t{0});
      s.record(LoweredOp::kTril, {ones}, {mask}, diagonal);
      AttributeWriter steps = words(DType::kFloat32);
      steps.value(0.5);
      steps.value(0.25);
      s.record(LoweredOp::kArange, {}, {ramp}, steps);
      s.pointwise(LoweredOp::kAdd, {x, ramp}, sum);
      s.pointwise(LoweredOp::kMul, {sum, mask}, product);
      s.softmax(LoweredOp::kSoftmax, {product}, 1, y);
      return std::vector<Tensor>{mask, ramp, product, y};
    });
  }
}

TEST_F(GeneratorTest, RandomFillsFollowTheirDefinition) {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
    const int digits = dtype == DType::kFloat32    ? 24
                       : dtype == DType::kFloat64  ? 53
                       : dtype == DType::kBFloat16 ? 8
                                                   : 11;
    const bool wide = dtype == DType::kFloat64;
    const double tolerance = digits < 24 ? std::ldexp(4, -digits) : 2e-6;
    for (const Tensor& out : layouts(dtype)) {
      const Tensor gauss = s.empty(out.sizes, dtype), decay = s.empty(out.sizes, dtype);
      const Tensor log_normal = s.empty(out.sizes, dtype), cauchy = s.empty(out.sizes, dtype);
      const Tensor geometric = s.empty(out.sizes, DType::kInt32);
      random_fill(LoweredOp::kUniform, out, dtype, {-1, 3});
      normal(gauss, 0.5, 2);
      random_fill(LoweredOp::kExponential, decay, dtype, {1.5});
      random_fill(LoweredOp::kLogNormal, log_normal, dtype, {0.25, 0.5});
      random_fill(LoweredOp::kCauchy, cauchy, dtype, {1, 2});
      random_fill(LoweredOp::kGeometric, geometric, DType::kFloat32, {0.3});
      run();
      for (int64_t i = 0; i < out.numel(); ++i) {
        const auto w = philox(kSeed, static_cast<uint64_t>(i), kOffset);
        const uint64_t bits = wide ? joined(w[0], w[1]) : w[0];
        const int open_digits = wide ? 52 : 23;
        const double open = low_fraction(bits, open_digits) + std::ldexp(0.5, -open_digits);
        const double turn = wide ? low_fraction(joined(w[2], w[3]), 53) : low_fraction(w[1], 24);
        const double z = std::sqrt(-2 * std::log(open)) * std::cos(2 * M_PI * turn);
        const auto expect = [&](const Tensor& t, double v, const char* what) {
          ASSERT_NEAR(test::get(t, i), v, tolerance * std::max(2.0, std::abs(v) * 4))
              << what << " " << name(dtype) << " " << i;
        };
        ASSERT_NEAR(test::get(out, i), low_fraction(bits, digits) * 4 - 1, tolerance);
        expect(gauss, 0.5 + 2 * z, "normal");
        expect(decay, -std::log(open) / 1.5, "exponential");
        expect(log_normal, std::exp(0.25 + 0.5 * z), "log_normal");
        if (digits >= 24 && std::abs(open - 0.5) < 0.45) {
          expect(cauchy, 1 + 2 * std::tan(M_PI * (open - 0.5)), "cauchy");
        }
        const double narrow = low_fraction(w[0], 23) + std::ldexp(0.5, -23);
        ASSERT_EQ(test::get(geometric, i), std::ceil(std::log(narrow) / std::log1p(-0.3)));
      }
    }
  }
}

TEST_F(GeneratorTest, IntegersAreDrawnFromTheWholeRange) {
  struct {
    int64_t from, to;
  } const kRanges[] = {{0, 2},
                       {-5, 6},
                       {0, int64_t{1} << 40},
                       {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::min()},
                       {-(int64_t{1} << 62), (int64_t{1} << 62) + 5}};
  for (const auto& range : kRanges) {
    const Tensor out = s.empty({7, 33}, DType::kInt64);
    AttributeWriter a = words(DType::kInt64);
    add_seed(&a);
    a.value(range.from);
    a.value(range.to);
    s.record(LoweredOp::kRandom, {}, {out}, a);
    run();
    for (int64_t i = 0; i < out.numel(); ++i) {
      const auto w = philox(kSeed, static_cast<uint64_t>(i), kOffset);
      const uint64_t bits = joined(w[0], w[1]);
      const uint64_t width = static_cast<uint64_t>(range.to) - static_cast<uint64_t>(range.from);
      const auto drawn =
          width == 0 ? bits
                     : static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * width >> 64);
      ASSERT_EQ(out.data<int64_t>()[i],
                static_cast<int64_t>(static_cast<uint64_t>(range.from) + drawn));
    }
  }
}

TEST_F(GeneratorTest, BernoulliTakesANumberOrATensor) {
  const Tensor p = random({35, 1}, DType::kFloat32, 0, 1);
  const Tensor a = s.empty({35, 3}, DType::kInt64), b = s.empty({35, 3}, DType::kBFloat16);
  AttributeWriter with_tensor = words(DType::kFloat32), with_number = words(DType::kFloat32, 1);
  add_seed(&with_tensor);
  with_number.value(0.25);
  add_seed(&with_number);
  s.record(LoweredOp::kBernoulli, {p}, {a}, with_tensor);
  s.record(LoweredOp::kBernoulli, {}, {b}, with_number);
  run();
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double u = low_fraction(philox(kSeed, static_cast<uint64_t>(i), kOffset)[0], 24);
    ASSERT_EQ(test::get(a, i), u < test::get(p, i / 3));
    ASSERT_EQ(test::get(b, i), u < 0.25);
  }
}

TEST_F(GeneratorTest, DropoutScalesWhatItKeepsAndFuses) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const Tensor x = random({6, 5, 8}, dtype, -2, 2);
    for (const Tensor& in : {x, x.transpose(0, 2)}) {
      for (double p : {0.0, 0.3, 1.0}) {
        const std::vector<Tensor> results = run_both([&] {
          const Tensor y = s.empty(in.sizes, dtype), mask = s.empty(in.sizes, DType::kBool);
          const Tensor z = s.empty(in.sizes, dtype), total = s.empty({in.sizes[0], 1, 1}, dtype);
          AttributeWriter a = words(dtype);
          add_seed(&a);
          a.value(p);
          s.record(LoweredOp::kNativeDropout, {in}, {y, mask}, a);
          s.pointwise(LoweredOp::kAdd, {y, in}, z);
          s.reduce(LoweredOp::kSum, z, {1, 2}, true, {total});
          return std::vector<Tensor>{y, mask, z, total};
        });
        for (int64_t i = 0; i < in.numel(); ++i) {
          const auto w = philox(kSeed, static_cast<uint64_t>(i), kOffset);
          const double u = dtype == DType::kFloat64 ? low_fraction(joined(w[0], w[1]), 53)
                                                    : low_fraction(w[0], 24);
          const bool kept = u < (dtype == DType::kFloat64 ? 1 - p : static_cast<float>(1 - p));
          ASSERT_EQ(test::get(results[1], i), kept);
          const double expected = kept ? test::get(in, i) / (1 - p) : 0;
          ASSERT_NEAR(test::get(results[0], i), expected, dtype == DType::kBFloat16 ? 0.01 : 1e-6);
        }
      }
    }
  }
}

TEST_F(GeneratorTest, SamplesHaveTheRightMoments) {
  constexpr int64_t kCount = 200000;
  const Tensor u = s.empty({kCount}), z = s.empty({kCount}), e = s.empty({kCount});
  random_fill(LoweredOp::kUniform, u, DType::kFloat32, {0, 1});
  normal(z, 0, 1);
  random_fill(LoweredOp::kExponential, e, DType::kFloat32, {1});
  run();
  double sums[3][4] = {};
  for (int64_t i = 0; i < kCount; ++i) {
    const double values[3] = {u.data<float>()[i], z.data<float>()[i], e.data<float>()[i]};
    for (int k = 0; k < 3; ++k) {
      for (int power = 1; power <= 4; ++power) {
        sums[k][power - 1] += std::pow(values[k], power) / static_cast<double>(kCount);
      }
    }
  }
  const double kMoments[3][4] = {{0.5, 1.0 / 3, 0.25, 0.2}, {0, 1, 0, 3}, {1, 2, 6, 24}};
  for (int k = 0; k < 3; ++k) {
    for (int power = 0; power < 4; ++power) {
      EXPECT_NEAR(sums[k][power], kMoments[k][power], 0.01 + 0.05 * kMoments[k][power]);
    }
  }
}

}  // namespace
}  // namespace neuron
