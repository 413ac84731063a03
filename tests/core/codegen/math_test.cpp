// SPDX-License-Identifier: Apache-2.0
//
// Math functions: published bounds on a sample (tools/ulp runs over every float), special values,
// and equal bits at every vector width.
#include "core/codegen/math_functions.h"

#include <cstdint>

#include "core/codegen/kernel_testing.h"

namespace neuron::testing {
namespace {

LoopNest unary_nest(NestOp op, DType t) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int in = b.operand(t, {kUnit}), out = b.operand(t, {kUnit});
  b.store(out, b.unary(op, b.load(in)));
  return b.finish();
}

// Every 99991st float, and the values where functions change their ways.
std::vector<float> sample() {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 99991)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (float v : {0.0f,
                  0x1p-149f,
                  0x1p-127f,
                  0x1p-126f,
                  1e-10f,
                  0.25f,
                  0.5f,
                  0.75f,
                  0.921875f,
                  1.0f,
                  0x1.fffffep-1f,
                  0x1.000002p0f,
                  1.5f,
                  2.0f,
                  3.0f,
                  8.0f,
                  9.1f,
                  10.0f,
                  16.0f,
                  87.3f,
                  88.7f,
                  88.8f,
                  103.9f,
                  104.1f,
                  0x1p23f,
                  0x1.fffffep22f,
                  0x1p24f,
                  1e30f,
                  0x1.fffffep127f,
                  INFINITY,
                  NAN})
    x.insert(x.end(), {v, -v});
  return x;
}

TEST(Math, BoundsAndSpecialValues) {
  for (const ulp::Function& f : ulp::kFunctions) {
    TestKernel kernel(unary_nest(f.op, kF32));
    std::vector<float> x = sample(), y(x.size());
    int64_t n = static_cast<int64_t>(x.size());
    kernel.run({argument(x, {1}), argument(y, {1})}, {n});
    double worst = 0;
    float at = 0;
    for (int64_t k = 0; k < n; ++k) {
      double e = ulp::error_in_ulp(f.reference(x[k]), y[k]);
      if (e > worst) worst = e, at = x[k];
    }
    EXPECT_LE(worst, f.bound) << name(f.op) << "(" << at << ")";
  }
}

TEST(Math, HalfPrecisionFunctionsOverEveryValue) {
  KernelCompiler::instance().set_library_path(NEURON_CODEGEN_LIBRARY);
  for (DType t : {kBF16, kF16})
    for (NestOp op : {NestOp::kExp, NestOp::kTanh, NestOp::kLog, NestOp::kSigmoid}) {
      const ulp::Function* f = ulp::kFunctions;
      while (f->op != op) ++f;
      KernelObject object(
          KernelCompiler::instance().compile(to_text(unary_nest(op, t)), host_features()));
      std::vector<uint16_t> x(65536), y(65536);
      for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<uint16_t>(k);
      int64_t count = 65536, strides[] = {1, 1}, index_strides[] = {0, 0};
      void* pointers[] = {x.data(), y.data()};
      uint32_t status = 0;
      KernelArgs args{pointers, &count, strides, index_strides, nullptr, nullptr, nullptr, &status};
      object.entry(0)(&args, 0, count);
      auto widen = [&](uint16_t v) { return t == kBF16 ? bf16_to_float(v) : f16_to_float(v); };
      for (size_t k = 0; k < x.size(); ++k) {
        float exact = static_cast<float>(f->reference(widen(x[k])));
        uint16_t rounded = t == kBF16 ? float_to_bf16(exact) : float_to_f16(exact);
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(widen(y[k]))) << name(op) << " " << widen(x[k]);
        } else {
          ASSERT_LE(std::abs(static_cast<int>(rounded) - static_cast<int>(y[k])), 1)
              << name(t) << " " << name(op) << " " << widen(x[k]);
        }
      }
    }
}

void check_pairs(NestOp op, double (*reference)(double, double), double bound) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int in = b.operand(kF32, {kUnit}), in2 = b.operand(kF32, {kUnit}), out = b.operand(kF32, {kUnit});
  b.store(out, b.binary(op, b.load(in), b.load(in2)));
  TestKernel kernel(b.finish());
  std::vector<float> values{0,
                            0.5f,
                            1,
                            1.5f,
                            2,
                            3,
                            4,
                            127,
                            1e10f,
                            1e-10f,
                            0x1p-149f,
                            0x1.fffffep127f,
                            0x1p24f,
                            0x1.000002p24f,
                            0x1.fffffep-1f,
                            0x1.000002p0f,
                            INFINITY,
                            NAN};
  for (float v : random_floats(40, 77, 0, 30)) values.push_back(v);
  std::vector<float> x, y;
  for (float v : values)
    for (float w : values)
      for (int sign = 0; sign < 4; ++sign)
        x.push_back(sign & 1 ? -v : v), y.push_back(sign & 2 ? -w : w);
  std::vector<float> z(x.size());
  kernel.run({argument(x, {1}), argument(y, {1}), argument(z, {1})},
             {static_cast<int64_t>(x.size())});
  for (size_t k = 0; k < x.size(); ++k)
    ASSERT_LE(ulp::error_in_ulp(reference(x[k], y[k]), z[k]), bound)
        << name(op) << "(" << x[k] << ", " << y[k] << ") = " << z[k] << ", expected "
        << reference(x[k], y[k]);
}

TEST(Math, PowAtan2AndHypotWithAllSpecialPairs) {
  check_pairs(
      NestOp::kPow, [](double x, double y) { return std::pow(x, y); }, 0.51);
  check_pairs(
      NestOp::kAtan2, [](double y, double x) { return std::atan2(y, x); }, 0.51);
  check_pairs(
      NestOp::kHypot, [](double x, double y) { return std::hypot(x, y); }, 0.51);
}

TEST(Math, NextAfterStepsByOneBit) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int in = b.operand(kF32, {kUnit}), in2 = b.operand(kF32, {kUnit}), out = b.operand(kF32, {kUnit});
  b.store(out, b.binary(NestOp::kNextAfter, b.load(in), b.load(in2)));
  TestKernel kernel(b.finish());
  std::vector<float> values{0.0f,       -0.0f,           1,        -1,       2, 0x1p-149f,
                            -0x1p-149f, 0x1.fffffep127f, INFINITY, -INFINITY};
  std::vector<float> x, y;
  for (float v : values)
    for (float w : values) x.push_back(v), y.push_back(w);
  std::vector<float> z(x.size());
  kernel.run({argument(x, {1}), argument(y, {1}), argument(z, {1})},
             {static_cast<int64_t>(x.size())});
  for (size_t k = 0; k < x.size(); ++k) {
    float e = std::nextafter(x[k], y[k]);
    ASSERT_EQ(std::bit_cast<uint32_t>(e), std::bit_cast<uint32_t>(z[k])) << x[k] << " " << y[k];
  }
}

TEST(Math, DoubleFunctionsThatLibmLacks) {
  for (double x : {-0.999999, -0.5, 1e-12, 0.1, 0.5, 0.9, 0.999999999}) {
    double y = kernel_erfinv(x);
    double back = std::fabs(x) > 0.5 ? std::copysign(1 - std::erfc(std::fabs(y)), x) : std::erf(y);
    EXPECT_NEAR(back, x, 4e-16 * std::max(1.0, std::fabs(x)));
  }
  EXPECT_TRUE(std::isinf(kernel_erfinv(1)) && std::isnan(kernel_erfinv(1.5)));
  // digamma(1) = -gamma, digamma(1/2) = -gamma - 2 ln 2, digamma(-1/2) = digamma(1/2) + 2.
  constexpr double kEuler = 0.57721566490153286061;
  EXPECT_NEAR(kernel_digamma(1), -kEuler, 1e-15);
  EXPECT_NEAR(kernel_digamma(0.5), -kEuler - 2 * std::log(2), 1e-14);
  EXPECT_NEAR(kernel_digamma(-0.5), -kEuler - 2 * std::log(2) + 2, 1e-14);
  EXPECT_TRUE(std::isnan(kernel_digamma(-2)) && std::isinf(kernel_digamma(0)));
  EXPECT_NEAR(kernel_lgamma(-0.5), std::log(2 * std::sqrt(M_PI)), 1e-15);
}

TEST(Math, DoubleKernelsCallLibm) {
  for (NestOp op :
       {NestOp::kExp, NestOp::kSin, NestOp::kErfinv, NestOp::kFloor, NestOp::kSigmoid}) {
    TestKernel kernel(unary_nest(op, kF64));
    std::vector<double> x, y(37);
    for (int k = 0; k < 37; ++k) x.push_back((k - 18) * 0.0537);
    kernel.run({argument(x, {1}), argument(y, {1})}, {37});
    for (int k = 0; k < 37; ++k) {
      double e = op == NestOp::kExp      ? std::exp(x[k])
                 : op == NestOp::kSin    ? std::sin(x[k])
                 : op == NestOp::kFloor  ? std::floor(x[k])
                 : op == NestOp::kErfinv ? kernel_erfinv(x[k])
                                         : 1 / (1 + std::exp(-x[k]));
      ASSERT_EQ(y[k], e) << name(op) << " " << x[k];
    }
  }
}

}  // namespace
}  // namespace neuron::testing
