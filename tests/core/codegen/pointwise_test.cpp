// SPDX-License-Identifier: Apache-2.0
#include "core/codegen/kernel_testing.h"

namespace neuron::testing {
namespace {

LoopNest unary_nest(NestOp op, DType t) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int in = b.operand(t, {kUnit});
  int out = b.operand(t, {kUnit});
  b.store(out, b.unary(op, b.load(in)));
  return b.finish();
}

LoopNest binary_nest(NestOp op, DType t) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int x = b.operand(t, {kUnit});
  int y = b.operand(t, {kUnit});
  bool compare = op_class(op) == NestOpClass::kCompare;
  int out = b.operand(compare ? DType::kBool : t, {kUnit});
  b.store(out, b.binary(op, b.load(x), b.load(y)));
  return b.finish();
}

TEST(Pointwise, AddsAtEverySizeAroundTheVectorWidth) {
  TestKernel kernel(binary_nest(NestOp::kAdd, kF32));
  for (int64_t n = 0; n <= 70; ++n) {
    std::vector<float> x = random_floats(n + 1, 1), y = random_floats(n + 1, 2), z(n + 1, -7);
    kernel.run({argument(x, {1}), argument(y, {1}), argument(z, {1})}, {n});
    for (int64_t k = 0; k < n; ++k) ASSERT_EQ(z[k], x[k] + y[k]) << n;
    ASSERT_EQ(z[n], -7) << "wrote past the end at " << n;
  }
}

TEST(Pointwise, ManyChunksOnThePool) {
  TestKernel kernel(unary_nest(NestOp::kNeg, kF32));
  std::vector<float> x = random_floats(300001, 1), z(x.size());
  kernel.run({argument(x, {1}), argument(z, {1})}, {300001});
  for (size_t k = 0; k < x.size(); ++k) ASSERT_EQ(z[k], -x[k]);
}

TEST(Pointwise, RoundsEveryOpToBFloat16) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int x = b.operand(kBF16, {kUnit}), y = b.operand(kBF16, {kUnit}), z = b.operand(kBF16, {kUnit});
  NodeId product = b.binary(NestOp::kMul, b.load(x), b.load(y));
  b.store(z, b.binary(NestOp::kAdd, product, b.load(x)));
  TestKernel kernel(b.finish());
  for (int64_t n : {5, 16, 67}) {
    std::vector<uint16_t> a = to_bf16(random_floats(n, 3)), c = to_bf16(random_floats(n, 4)), r(n);
    kernel.run({argument(a, {1}), argument(c, {1}), argument(r, {1})}, {n});
    for (int64_t k = 0; k < n; ++k) {
      float p = round_bf16(bf16_to_float(a[k]) * bf16_to_float(c[k]));
      ASSERT_EQ(r[k], float_to_bf16(p + bf16_to_float(a[k])));
    }
  }
}

TEST(Pointwise, ConvertsEveryHalfAndEveryBFloat16Exactly) {
  for (DType t : {kF16, kBF16}) {
    NestBuilder b(Schedule::kPointwise, 1, 0);
    int in = b.operand(t, {kUnit}), wide = b.operand(kF32, {kUnit}), back = b.operand(t, {kUnit});
    b.store(wide, b.cast(kF32, b.load(in)));
    b.store(back, b.load(in));
    TestKernel kernel(b.finish());
    std::vector<uint16_t> x(65536), z(65536);
    std::vector<float> w(65536);
    // Quiet NaNs only: a plain copy of a signalling one may keep it.
    uint16_t quiet = t == kF16 ? 0x200 : 0x40, infinity = t == kF16 ? 0x7c00 : 0x7f80;
    for (size_t k = 0; k < x.size(); ++k) {
      x[k] = static_cast<uint16_t>(k);
      if ((x[k] & 0x7fff) > infinity) x[k] |= quiet;
    }
    kernel.run({argument(x, {1}), argument(w, {1}), argument(z, {1})}, {65536});
    for (size_t k = 0; k < x.size(); ++k) {
      float expected = t == kF16 ? f16_to_float(x[k]) : bf16_to_float(x[k]);
      bool same =
          std::memcmp(&expected, &w[k], 4) == 0 || (std::isnan(expected) && std::isnan(w[k]));
      ASSERT_TRUE(same) << name(t) << " " << k;
      ASSERT_EQ(z[k], x[k]);
    }
  }
}

TEST(Pointwise, RoundsFloatToNarrowFormatsAsTheReference) {
  for (DType t : {kF16, kBF16}) {
    NestBuilder b(Schedule::kPointwise, 1, 0);
    int in = b.operand(kF32, {kUnit}), out = b.operand(t, {kUnit});
    b.store(out, b.cast(t, b.load(in)));
    TestKernel kernel(b.finish());
    // Every exponent, with mantissas around the rounding boundaries of both formats.
    std::vector<float> x;
    for (uint32_t e = 0; e < 512; ++e)
      for (uint32_t m : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u, 0x3001u, 0x7fffu,
                         0x8000u, 0x8001u, 0x17fffu, 0x18000u, 0x7ff000u, 0x7fffffu}) {
        uint32_t bits = (e << 23) | m;
        x.push_back(std::bit_cast<float>(bits));
      }
    std::vector<uint16_t> z(x.size());
    int64_t n = static_cast<int64_t>(x.size());
    kernel.run({argument(x, {1}), argument(z, {1})}, {n});
    for (size_t k = 0; k < x.size(); ++k)
      ASSERT_EQ(z[k], t == kF16 ? float_to_f16(x[k]) : float_to_bf16(x[k])) << x[k];
  }
}

TEST(Pointwise, BroadcastsAndStridesInThreeDims) {
  NestBuilder b(Schedule::kPointwise, 3, 0);
  int x = b.operand(kF32, {kAny, kAny, kUnit});
  int row = b.operand(kF32, {kZero, kZero, kUnit});
  int column = b.operand(kF32, {kZero, kUnit, kZero});
  int turned = b.operand(kF32, {kAny, kUnit, kAny});
  int out = b.operand(kF32, {kAny, kAny, kUnit});
  NodeId sum = b.binary(NestOp::kAdd, b.load(x), b.load(row));
  sum = b.binary(NestOp::kMul, sum, b.load(column));
  b.store(out, b.binary(NestOp::kSub, sum, b.load(turned)));
  TestKernel kernel(b.finish());
  for (auto [p, q, r] : {std::array<int64_t, 3>{2, 3, 37}, {1, 5, 16}, {40, 60, 30}, {3, 1, 1}}) {
    std::vector<float> a = random_floats(p * q * r, 1), v = random_floats(r, 2),
                       c = random_floats(q, 3), t = random_floats(p * q * r, 4), z(p * q * r);
    kernel.run({argument(a, {q * r, r, 1}), argument(v, {0, 0, 1}), argument(c, {0, 1, 0}),
                argument(t, {q * r, 1, q}), argument(z, {q * r, r, 1})},
               {p, q, r});
    for (int64_t i = 0; i < p; ++i)
      for (int64_t j = 0; j < q; ++j)
        for (int64_t k = 0; k < r; ++k) {
          float s = (a[(i * q + j) * r + k] + v[k]) * c[j];
          ASSERT_EQ(z[(i * q + j) * r + k], s - t[(i * r + k) * q + j])
              << i << " " << j << " " << k;
        }
  }
}

TEST(Pointwise, SelectsComparesAndCasts) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int x = b.operand(kF32, {kUnit}), m = b.operand(kBool, {kUnit}), z = b.operand(kI32, {kUnit});
  int flag = b.operand(kBool, {kUnit}), slot = b.scalar_slot(kF32);
  NodeId above = b.binary(NestOp::kGt, b.load(x), b.scalar(slot));
  b.store(flag, b.binary(NestOp::kAnd, above, b.load(m)));
  b.store(z, b.select(b.load(m), b.cast(kI32, b.load(x)), b.constant_int(kI32, -9)));
  TestKernel kernel(b.finish());
  int64_t n = 53;
  std::vector<float> v = random_floats(n, 8, -100, 100);
  v[0] = NAN;
  v[1] = 3e9f;
  v[2] = -INFINITY;
  std::vector<uint8_t> mask(n), flags(n);
  for (int64_t k = 0; k < n; ++k) mask[k] = k % 3 != 1 || k < 3;
  std::vector<int32_t> r(n);
  uint64_t limit = std::bit_cast<uint32_t>(12.5f);
  kernel.run({argument(v, {1}), argument(mask, {1}), argument(r, {1}), argument(flags, {1})}, {n},
             {limit});
  for (int64_t k = 0; k < n; ++k) {
    ASSERT_EQ(flags[k], v[k] > 12.5f && mask[k]);
    int32_t expected = k < 3 ? INT32_MIN : mask[k] ? static_cast<int32_t>(v[k]) : -9;
    ASSERT_EQ(r[k], expected) << k;
  }
}

template <typename T>
void check_division(DType t, NestOp op, const std::vector<T>& x, const std::vector<T>& y) {
  TestKernel kernel(binary_nest(op, t));
  std::vector<T> a = x, c = y, z(x.size());
  int64_t n = static_cast<int64_t>(x.size());
  kernel.run({argument(a, {1}), argument(c, {1}), argument(z, {1})}, {n});
  for (size_t k = 0; k < x.size(); ++k) {
    using Wide = __int128;
    Wide p = x[k], q = y[k], quotient = p / q, rest = p % q;
    bool adjust = rest != 0 && ((rest < 0) != (q < 0));
    Wide expected = op == NestOp::kTruncDiv   ? quotient
                    : op == NestOp::kFloorDiv ? quotient - adjust
                    : op == NestOp::kFmod     ? rest
                                              : rest + (adjust ? q : 0);
    ASSERT_EQ(z[k], static_cast<T>(expected)) << +x[k] << " " << name(op) << " " << +y[k];
  }
}

template <typename T>
void check_divisions(DType t) {
  std::vector<T> x, y;
  std::vector<T> values{1,
                        2,
                        3,
                        7,
                        100,
                        std::numeric_limits<T>::max(),
                        std::numeric_limits<T>::min(),
                        static_cast<T>(-1),
                        static_cast<T>(-5),
                        static_cast<T>(std::numeric_limits<T>::max() - 1)};
  std::mt19937_64 generator(5);
  for (int k = 0; k < 60; ++k) values.push_back(static_cast<T>(generator()));
  values.push_back(0);
  for (T a : values)
    for (T c : values)
      if (c != 0) x.push_back(a), y.push_back(c);
  for (NestOp op : {NestOp::kTruncDiv, NestOp::kFloorDiv, NestOp::kFmod, NestOp::kRemainder})
    check_division(t, op, x, y);
}

TEST(Pointwise, IntegerDivisionOfAllSignsAndExtremes) {
  check_divisions<int8_t>(DType::kInt8);
  check_divisions<uint8_t>(DType::kUInt8);
  check_divisions<int16_t>(DType::kInt16);
  check_divisions<int32_t>(DType::kInt32);
  check_divisions<int64_t>(DType::kInt64);
}

template <typename T>
void check_division_by_zero(DType t) {
  TestKernel kernel(binary_nest(NestOp::kFloorDiv, t));
  std::vector<T> x(20, 6), y(20, 2), z(20);
  y[0] = 0;
  EXPECT_THROW(kernel.run({argument(x, {1}), argument(y, {1}), argument(z, {1})}, {20}), Error);
  y[0] = 2;  // lanes past the end divide by nothing
  EXPECT_NO_THROW(kernel.run({argument(x, {1}), argument(y, {1}), argument(z, {1})}, {19}));
}

TEST(Pointwise, DivisionByZeroIsReportedAndDoesNotTrap) {
  check_division_by_zero<uint8_t>(DType::kUInt8);
  check_division_by_zero<int32_t>(DType::kInt32);
  check_division_by_zero<int64_t>(DType::kInt64);
}

TEST(Pointwise, ShiftsOutOfRange) {
  TestKernel left(binary_nest(NestOp::kShl, kI32)), right(binary_nest(NestOp::kShr, kI32));
  std::vector<int32_t> x{1, -8, 5, -5}, y{31, 40, -1, 33}, z(4);
  left.run({argument(x, {1}), argument(y, {1}), argument(z, {1})}, {4});
  EXPECT_EQ(z, (std::vector<int32_t>{INT32_MIN, 0, 0, 0}));
  right.run({argument(x, {1}), argument(y, {1}), argument(z, {1})}, {4});
  EXPECT_EQ(z, (std::vector<int32_t>{0, -1, 0, -1}));
}

TEST(Pointwise, MaximumPropagatesNaNAndFmaxIgnoresIt) {
  std::vector<float> x{1, NAN, 2, NAN, -0.0f}, y{2, 1, NAN, NAN, 5}, z(5);
  TestKernel(binary_nest(NestOp::kMax, kF32))
      .run({argument(x, {1}), argument(y, {1}), argument(z, {1})}, {5});
  EXPECT_EQ(z[0], 2);
  EXPECT_TRUE(std::isnan(z[1]) && std::isnan(z[2]) && std::isnan(z[3]));
  TestKernel(binary_nest(NestOp::kFmax, kF32))
      .run({argument(x, {1}), argument(y, {1}), argument(z, {1})}, {5});
  EXPECT_EQ(z[1], 1);
  EXPECT_EQ(z[2], 2);
  EXPECT_TRUE(std::isnan(z[3]));
}

TEST(Pointwise, FloatRemainderAndFloorDivisionFollowPython) {
  std::vector<float> x{7, -7, 7, -7, 1e30f, 5.5f, 0, -0.0f}, y{3, 3, -3, -3, 7, INFINITY, 3, 3},
      z(8);
  TestKernel(binary_nest(NestOp::kRemainder, kF32))
      .run({argument(x, {1}), argument(y, {1}), argument(z, {1})}, {8});
  EXPECT_EQ(z[0], 1);
  EXPECT_EQ(z[1], 2);
  EXPECT_EQ(z[2], -2);
  EXPECT_EQ(z[3], -1);
  EXPECT_EQ(z[4], std::fmod(1e30f, 7.0f));
  TestKernel(binary_nest(NestOp::kFloorDiv, kF32))
      .run({argument(x, {1}), argument(y, {1}), argument(z, {1})}, {8});
  EXPECT_EQ(z[0], 2);
  EXPECT_EQ(z[1], -3);
  EXPECT_EQ(z[2], -3);
  EXPECT_EQ(z[3], 2);
  EXPECT_EQ(z[5], 0);
  EXPECT_TRUE(std::signbit(z[7]));
}

TEST(Pointwise, EveryOpOfEveryDtypeCompiles) {
  // One level each, in turn: what the levels compute is compared elsewhere.
  std::vector<std::string> levels = feature_levels();
  size_t compiled = 0;
#define NEURON_TEST_OP(op, text, cls)                                                         \
  for (DType t : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, kI32, kI64, kF16, \
                  kBF16, kF32, kF64}) {                                                       \
    NestOp o = NestOp::k##op;                                                                 \
    NestOpClass c = NestOpClass::k##cls;                                                      \
    bool unary = c == NestOpClass::kUnary && o != NestOp::kCast && o != NestOp::kBitcast;     \
    bool binary = c == NestOpClass::kBinary || c == NestOpClass::kCompare;                    \
    if (!unary && !binary) continue;                                                          \
    if (o == NestOp::kNextAfter && (t == kF16 || t == kBF16)) continue; /* kUnsupported */    \
    try {                                                                                     \
      LoopNest nest = unary ? unary_nest(o, t) : binary_nest(o, t);                           \
      KernelObject object(KernelCompiler::instance().compile(                                 \
          to_text(nest), levels[compiled++ % levels.size()], NEURON_CODEGEN_VERIFY));         \
    } catch (const Error& e) {                                                                \
      EXPECT_NE(std::string(e.what()).find("invalid loop nest"), std::string::npos)           \
          << text << " " << name(t) << ": " << e.what();                                      \
    }                                                                                         \
  }
  NEURON_NEST_OPS(NEURON_TEST_OP)
#undef NEURON_TEST_OP
  EXPECT_GT(compiled, 250u);
}

TEST(Pointwise, PhiloxGivesTheKnownAnswers) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int key = b.operand(kI64, {kUnit}), low = b.operand(kI64, {kUnit}),
      high = b.operand(kI64, {kUnit});
  for (int word = 0; word < 4; ++word) {
    int out = b.operand(kI32, {kUnit});
    b.store(out, b.philox(b.load(key), b.load(low), b.load(high), word));
  }
  TestKernel kernel(b.finish());
  // The test vectors published with Philox4x32-10.
  std::vector<int64_t> k{0, -1, 0x299f31d0a4093822},
      l{0, -1, static_cast<int64_t>(0x85a308d3243f6a88)}, h{0, -1, 0x0370734413198a2e};
  std::vector<std::vector<int32_t>> r(4, std::vector<int32_t>(3));
  kernel.run({argument(k, {1}), argument(l, {1}), argument(h, {1}), argument(r[0], {1}),
              argument(r[1], {1}), argument(r[2], {1}), argument(r[3], {1})},
             {3});
  uint32_t expected[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                             {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                             {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
  for (int n = 0; n < 3; ++n)
    for (int w = 0; w < 4; ++w) EXPECT_EQ(static_cast<uint32_t>(r[w][n]), expected[n][w]) << n << w;
}

}  // namespace
}  // namespace neuron::testing
