// SPDX-License-Identifier: Apache-2.0
//
// Every lowered operation alone, through its kernel, against its definition in double.
#include "neuron/lower/lowering.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/codegen_eager/lowering_testing.h"

namespace neuron {
namespace {

using test::Tensor;

using Function = std::function<double(const std::vector<double>&)>;

struct Case {
  LoweredOp op;
  Function f;                    // of the operands, then the own values
  std::vector<double> values{};  // own values
  double low = -3, high = 3;     // of the operands
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double cdf(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_inner(double x) { return std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }
double softplus(double x) { return std::log1p(std::exp(x)); }
double trigamma(double x) {  // the sum, with the integral and half a term for its tail
  double total = 0;
  for (int k = 0; k < 1000; ++k) total += 1 / ((x + k) * (x + k));
  const double rest = x + 1000;
  return total + 1 / rest + 0.5 / (rest * rest) + 1 / (6 * rest * rest * rest);
}
double derivative(const Function& f, double x) {
  constexpr double h = 1e-5;
  return (f({x + h}) - f({x - h})) / (2 * h);
}
double gelu_tanh(const std::vector<double>& v) {
  return 0.5 * v[0] * (1 + std::tanh(gelu_inner(v[0])));
}
double mish(const std::vector<double>& v) { return v[0] * std::tanh(softplus(v[0])); }

#define F(expression) [](const std::vector<double>& v) -> double { return expression; }
#define FUNCTION(op, f, low, high)                                                             \
  {                                                                                            \
    LoweredOp::k##op, [](const std::vector<double>& v) -> double { return f(v[0]); }, {}, low, \
        high                                                                                   \
  }

const Case kCases[] = {
    {LoweredOp::kCopy, F(v[0])},
    {LoweredOp::kWhere, F(v[0] != 0 ? v[1] : v[2])},
    {LoweredOp::kMaskedFill, F(v[1] != 0 ? v[2] : v[0])},
    {LoweredOp::kAdd, F(v[0] + v[1])},
    {LoweredOp::kAddScaled, F(v[0] + v[2] * v[1]), {0.3}},
    {LoweredOp::kSub, F(v[0] - v[1])},
    {LoweredOp::kSubScaled, F(v[0] - v[2] * v[1]), {0.3}},
    {LoweredOp::kRsubScaled, F(v[1] - v[2] * v[0]), {0.3}},
    {LoweredOp::kMul, F(v[0] * v[1])},
    {LoweredOp::kDiv, F(v[0] / v[1])},
    {LoweredOp::kDivTrunc, F(std::trunc(v[0] / v[1]))},
    {LoweredOp::kDivFloor, F(std::floor(v[0] / v[1]))},
    {LoweredOp::kFmod, F(std::fmod(v[0], v[1]))},
    {LoweredOp::kRemainder, F(v[0] - v[1] * std::floor(v[0] / v[1]))},
    {LoweredOp::kPow, F(std::pow(v[0], v[1])), {}, 0.1, 3},
    {LoweredOp::kSquare, F(v[0] * v[0])},
    {LoweredOp::kCube, F(v[0] * v[0] * v[0])},
    {LoweredOp::kReciprocalSquare, F(1 / (v[0] * v[0])), {}, 0.1, 3},
    {LoweredOp::kMaximum, F(std::max(v[0], v[1]))},
    {LoweredOp::kMinimum, F(std::min(v[0], v[1]))},
    {LoweredOp::kFmax, F(std::fmax(v[0], v[1]))},
    {LoweredOp::kFmin, F(std::fmin(v[0], v[1]))},
    {LoweredOp::kClamp, F(std::min(std::max(v[0], v[1]), v[2]))},
    {LoweredOp::kAtan2, F(std::atan2(v[0], v[1]))},
    {LoweredOp::kCopysign, F(std::copysign(v[0], v[1]))},
    {LoweredOp::kHypot, F(std::hypot(v[0], v[1]))},
    {LoweredOp::kLogaddexp, F(std::log(std::exp(v[0]) + std::exp(v[1])))},
    {LoweredOp::kLogaddexp2, F(std::log2(std::exp2(v[0]) + std::exp2(v[1])))},
    {LoweredOp::kXlogy, F(v[0] * std::log(v[1])), {}, 0.1, 3},
    {LoweredOp::kAddcmul, F(v[0] + v[3] * v[1] * v[2]), {0.3}},
    {LoweredOp::kAddcdiv, F(v[0] + v[3] * v[1] / v[2]), {0.3}, 0.1, 3},
    {LoweredOp::kLerp, F(v[0] + v[2] * (v[1] - v[0]))},
    {LoweredOp::kMseLossBackward, F(v[3] * (v[1] - v[2]) * v[0]), {2.0}},
    FUNCTION(Neg, -, -3, 3),
    FUNCTION(Abs, std::abs, -3, 3),
    {LoweredOp::kSign, F((v[0] > 0) - (v[0] < 0))},
    FUNCTION(Floor, std::floor, -3, 3),
    FUNCTION(Ceil, std::ceil, -3, 3),
    FUNCTION(Round, std::nearbyint, -3, 3),
    FUNCTION(Trunc, std::trunc, -3, 3),
    {LoweredOp::kFrac, F(v[0] - std::trunc(v[0]))},
    FUNCTION(Sqrt, std::sqrt, 0, 3),
    FUNCTION(Rsqrt, 1 / std::sqrt, 0.1, 3),
    FUNCTION(Reciprocal, 1 /, 0.1, 3),
    FUNCTION(Exp, std::exp, -3, 3),
    FUNCTION(Exp2, std::exp2, -3, 3),
    FUNCTION(Expm1, std::expm1, -3, 3),
    FUNCTION(Log, std::log, 0.1, 3),
    FUNCTION(Log2, std::log2, 0.1, 3),
    FUNCTION(Log10, std::log10, 0.1, 3),
    FUNCTION(Log1p, std::log1p, -0.9, 3),
    FUNCTION(Tanh, std::tanh, -3, 3),
    FUNCTION(Sinh, std::sinh, -3, 3),
    FUNCTION(Cosh, std::cosh, -3, 3),
    FUNCTION(Sin, std::sin, -3, 3),
    FUNCTION(Cos, std::cos, -3, 3),
    FUNCTION(Tan, std::tan, -1.4, 1.4),
    FUNCTION(Asin, std::asin, -0.9, 0.9),
    FUNCTION(Acos, std::acos, -0.9, 0.9),
    FUNCTION(Atan, std::atan, -3, 3),
    FUNCTION(Asinh, std::asinh, -3, 3),
    FUNCTION(Acosh, std::acosh, 1.1, 3),
    FUNCTION(Atanh, std::atanh, -0.9, 0.9),
    FUNCTION(Erf, std::erf, -3, 3),
    FUNCTION(Erfc, std::erfc, -3, 3),
    FUNCTION(Sigmoid, sigmoid, -3, 3),
    FUNCTION(Lgamma, std::lgamma, 0.1, 3),
    {LoweredOp::kSinc, F(std::sin(M_PI* v[0]) / (M_PI * v[0])), {}, 0.1, 0.9},
    {LoweredOp::kLogit, F(std::log(v[0] / (1 - v[0]))), {}, 0.1, 0.9},
    {LoweredOp::kLogitClamped,
     F(std::log(std::clamp(v[0], v[1], 1 - v[1]) / (1 - std::clamp(v[0], v[1], 1 - v[1])))),
     {0.2},
     0,
     1},
    {LoweredOp::kNanToNum, F(v[0]), {1, 2, 3}},
    {LoweredOp::kRelu, F(std::max(v[0], 0.0))},
    {LoweredOp::kLeakyRelu, F(v[0] > 0 ? v[0] : v[1] * v[0]), {0.1}},
    {LoweredOp::kThreshold, F(v[0] <= v[1] ? v[2] : v[0]), {0.5, -7}},
    {LoweredOp::kElu,
     F(v[0] < 0 ? std::expm1(v[0] * v[3]) * v[1] * v[2] : v[0] * v[2]),
     {1.5, 0.7, 0.9}},
    {LoweredOp::kGelu, F(v[0] * cdf(v[0]))},
    {LoweredOp::kGeluTanh, gelu_tanh},
    {LoweredOp::kSilu, F(v[0] * sigmoid(v[0]))},
    {LoweredOp::kMish, mish},
    {LoweredOp::kSoftplus,
     F(v[0] * v[1] > v[2] ? v[0] : std::log1p(std::exp(v[0] * v[1])) / v[1]),
     {1.5, 2}},
    {LoweredOp::kHardtanh, F(std::clamp(v[0], v[1], v[2])), {-0.5, 0.8}},
    {LoweredOp::kHardsigmoid, F(std::clamp(v[0] + 3, 0.0, 6.0) / 6), {}, -5, 5},
    {LoweredOp::kHardswish, F(v[0] * std::clamp(v[0] + 3, 0.0, 6.0) / 6), {}, -5, 5},
    {LoweredOp::kHardshrink, F(std::abs(v[0]) <= v[1] ? 0 : v[0]), {0.5}},
    {LoweredOp::kSoftshrink,
     F(v[0] > v[1]    ? v[0] - v[1]
       : v[0] < -v[1] ? v[0] + v[1]
                      : 0),
     {0.5}},
    {LoweredOp::kLogSigmoid, F(std::log(sigmoid(v[0])))},
    {LoweredOp::kSigmoidBackward, F(v[0] * v[1] * (1 - v[1]))},
    {LoweredOp::kTanhBackward, F(v[0] * (1 - v[1] * v[1]))},
    {LoweredOp::kThresholdBackward, F(v[1] <= v[2] ? 0 : v[0]), {0.5}},
    {LoweredOp::kLeakyReluBackward, F(v[1] > 0 ? v[0] : v[0] * v[2]), {0.1}},
    {LoweredOp::kEluBackward,
     F(v[1] <= 0 ? v[0] * v[4] * v[2] * v[3] * std::exp(v[1] * v[4]) : v[0] * v[3]),
     {1.5, 0.7, 0.9}},
    {LoweredOp::kEluBackwardResult,
     F(v[1] <= 0 ? v[0] * v[4] * (v[1] + v[2] * v[3]) : v[0] * v[3]),
     {1.5, 0.7, 0.9}},
    {LoweredOp::kGeluBackward,
     F(v[0] * derivative([](const std::vector<double>& u) { return u[0] * cdf(u[0]); }, v[1]))},
    {LoweredOp::kGeluTanhBackward, F(v[0] * derivative(gelu_tanh, v[1]))},
    {LoweredOp::kSiluBackward,
     F(v[0] * derivative([](const std::vector<double>& u) { return u[0] * sigmoid(u[0]); }, v[1]))},
    {LoweredOp::kMishBackward, F(v[0] * derivative(mish, v[1]))},
    {LoweredOp::kSoftplusBackward,
     F(v[1] * v[2] > v[3] ? v[0] : v[0] * sigmoid(v[1] * v[2])),
     {1.5, 2}},
    {LoweredOp::kHardtanhBackward, F(v[1] <= v[2] || v[1] >= v[3] ? 0 : v[0]), {-0.5, 0.8}},
    {LoweredOp::kHardsigmoidBackward, F(v[1] > -3 && v[1] < 3 ? v[0] / 6 : 0), {}, -5, 5},
    {LoweredOp::kHardswishBackward,
     F(v[1] <= -3 ? 0
       : v[1] < 3 ? v[0] * (v[1] / 3 + 0.5)
                  : v[0]),
     {},
     -5,
     5},
    {LoweredOp::kShrinkBackward, F(std::abs(v[1]) <= v[2] ? 0 : v[0]), {0.5}},
    {LoweredOp::kLogSigmoidBackward, F(v[0] * sigmoid(-v[1]))},
    {LoweredOp::kLogitBackward, F(v[0] / (v[1] * (1 - v[1]))), {}, 0.1, 0.9},
    {LoweredOp::kHeaviside, F(v[0] == 0 ? v[1] : v[0] > 0)},
    {LoweredOp::kXlog1py, F(v[0] * std::log1p(v[1])), {}, -0.9, 3},
    {LoweredOp::kEntr, F(-v[0] * std::log(v[0])), {}, 0.1, 3},
    {LoweredOp::kTrigamma, F(trigamma(v[0])), {}, 0.3, 5},
    {LoweredOp::kAngle, F(v[0] < 0 ? M_PI : 0)},
    {LoweredOp::kRoundDecimals, F(std::nearbyint(v[0] * v[1]) / v[1]), {4}},
    {LoweredOp::kRoundTens, F(std::nearbyint(v[0] / v[1]) * v[1]), {4}, -30, 30},
    {LoweredOp::kLogitBackwardClamped,
     F(v[1]<v[2] || v[1]> 1 - v[2] ? 0 : v[0] / (v[1] * (1 - v[1]))),
     {0.3},
     0.1,
     0.9},
    {LoweredOp::kNativeDropoutBackward, F(v[0] * v[1] * v[2]), {1.25}},
    {LoweredOp::kPrelu, F(v[0] > 0 ? v[0] : v[1] * v[0])},
    {LoweredOp::kGlu, F(v[0] * sigmoid(v[1]))},
};

const Case kPredicates[] = {
    {LoweredOp::kEq, F(v[0] == v[1])},
    {LoweredOp::kNe, F(v[0] != v[1])},
    {LoweredOp::kLt, F(v[0] < v[1])},
    {LoweredOp::kLe, F(v[0] <= v[1])},
    {LoweredOp::kGt, F(v[0] > v[1])},
    {LoweredOp::kGe, F(v[0] >= v[1])},
    {LoweredOp::kLogicalAnd, F(v[0] != 0 && v[1] != 0)},
    {LoweredOp::kLogicalOr, F(v[0] != 0 || v[1] != 0)},
    {LoweredOp::kLogicalXor, F((v[0] != 0) != (v[1] != 0))},
    {LoweredOp::kLogicalNot, F(v[0] == 0)},
    {LoweredOp::kIsNan, F(std::isnan(v[0]))},
    {LoweredOp::kIsInf, F(std::isinf(v[0]))},
    {LoweredOp::kIsFinite, F(std::isfinite(v[0]))},
    {LoweredOp::kIsPosinf, F(std::isinf(v[0]) && v[0] > 0)},
    {LoweredOp::kIsNeginf, F(std::isinf(v[0]) && v[0] < 0)},
    {LoweredOp::kSignbit, F(std::signbit(v[0]))},
};

#undef FUNCTION
#undef F

using test::LoweringTest;

constexpr int64_t kSize = 147;

// Values of the operands at element i, then the case's own.
std::vector<double> arguments(const std::vector<Tensor>& operands, int64_t i, const Case& c) {
  std::vector<double> v;
  for (const Tensor& t : operands) v.push_back(test::get(t, i));
  v.insert(v.end(), c.values.begin(), c.values.end());
  return v;
}

TEST_F(LoweringTest, PointwiseOperationsFollowTheirDefinitions) {
  struct {
    DType dtype;
    double tolerance;
  } const kTypes[] = {{DType::kFloat32, 2e-6},
                      {DType::kFloat64, 1e-9},
                      {DType::kBFloat16, 1.0 / 200},
                      {DType::kFloat16, 1.0 / 1000}};
  for (const Case& c : kCases) {
    const OpInfo& info = op_info(op_id(c.op));
    for (const auto& type : kTypes) {
      std::vector<Tensor> operands;
      for (int k = 0; k < info.operands; ++k) {
        operands.push_back(random({kSize}, type.dtype, c.low, c.high));
      }
      const bool masked = c.op == LoweredOp::kWhere || c.op == LoweredOp::kMaskedFill ||
                          c.op == LoweredOp::kNativeDropoutBackward;
      if (masked) operands[c.op == LoweredOp::kWhere ? 0 : 1] = random({kSize}, DType::kBool, 0, 2);
      const Tensor out = s.empty({kSize}, type.dtype);
      s.pointwise(c.op, operands, out, c.values, type.dtype);
      run();
      for (int64_t i = 0; i < kSize; ++i) {
        const std::vector<double> v = arguments(operands, i, c);
        const double expected = c.f(v), actual = test::get(out, i);
        const double scale = std::max(1.0, std::abs(expected));
        // Rounding of a quotient may go to either side of an integer.
        const bool steps = c.op == LoweredOp::kDivFloor || c.op == LoweredOp::kDivTrunc ||
                           c.op == LoweredOp::kFmod || c.op == LoweredOp::kRemainder;
        const double slack = steps ? 1e-5 + type.tolerance * scale : 20 * type.tolerance * scale;
        ASSERT_NEAR(actual, expected, slack)
            << info.id << " " << name(type.dtype) << " of " << v[0] << ", " << v.back();
      }
    }
  }
}

TEST_F(LoweringTest, PredicatesGiveTruthValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {0.0, -0.0, 1, -1, inf, -inf, std::nan(""), 2};
  for (const Case& c : kPredicates) {
    for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16}) {
      const OpInfo& info = op_info(op_id(c.op));
      const auto n = static_cast<int64_t>(special.size());
      std::vector<Tensor> operands;
      for (int k = 0; k < info.operands; ++k) {
        operands.push_back(s.empty({n * n}, dtype));
        for (int64_t i = 0; i < n * n; ++i) {
          test::set(operands.back(), i, special[static_cast<size_t>(k == 0 ? i / n : i % n)]);
        }
      }
      const Tensor out = s.empty({n * n}, DType::kBool);
      s.pointwise(c.op, operands, out, {}, dtype);
      run();
      for (int64_t i = 0; i < n * n; ++i) {
        const std::vector<double> v = arguments(operands, i, c);
        ASSERT_EQ(test::get(out, i), c.f(v)) << info.id << " of " << v[0] << ", " << v.back();
      }
    }
  }
}

TEST_F(LoweringTest, IntegersWrapAndDivideAsInPyTorch) {
  const std::vector<int64_t> values = {-7, -3, -1, 1, 2, 3, 5, 8};
  const auto n = static_cast<int64_t>(values.size());
  struct {
    LoweredOp op;
    std::function<int64_t(int64_t, int64_t)> f;
  } const kOps[] = {
      {LoweredOp::kAdd, [](int64_t a, int64_t b) { return a + b; }},
      {LoweredOp::kMul, [](int64_t a, int64_t b) { return a * b; }},
      {LoweredOp::kDivTrunc, [](int64_t a, int64_t b) { return a / b; }},
      {LoweredOp::kDivFloor,
       [](int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }},
      {LoweredOp::kFmod, [](int64_t a, int64_t b) { return a % b; }},
      {LoweredOp::kRemainder, [](int64_t a, int64_t b) { return ((a % b) + b) % b; }},
      {LoweredOp::kMaximum, [](int64_t a, int64_t b) { return std::max(a, b); }},
      {LoweredOp::kBitwiseAnd, [](int64_t a, int64_t b) { return a & b; }},
      {LoweredOp::kBitwiseXor, [](int64_t a, int64_t b) { return a ^ b; }},
  };
  for (const auto& op : kOps) {
    for (DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}) {
      const Tensor a = s.empty({n * n}, dtype), b = s.empty({n * n}, dtype);
      for (int64_t i = 0; i < n * n; ++i) {
        test::set(a, i, static_cast<double>(values[static_cast<size_t>(i / n)]));
        test::set(b, i, static_cast<double>(values[static_cast<size_t>(i % n)]));
      }
      const Tensor out = s.empty({n * n}, dtype);
      s.pointwise(op.op, {a, b}, out, {}, dtype);
      run();
      for (int64_t i = 0; i < n * n; ++i) {
        const auto x = static_cast<int64_t>(test::get(a, i)),
                   y = static_cast<int64_t>(test::get(b, i));
        ASSERT_EQ(test::get(out, i), static_cast<double>(op.f(x, y)))
            << op_info(op_id(op.op)).id << " " << name(dtype) << " of " << x << ", " << y;
      }
    }
  }
}

TEST_F(LoweringTest, IntegerPowersWrapAndInvertUnits) {
  const std::vector<int64_t> bases = {-3, -2, -1, 0, 1, 2, 3, 7},
                             exponents = {-3, -2, 0, 1, 2, 5, 13, 63};
  for (DType dtype : {DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}) {
    const Tensor a = s.empty({64}, dtype), b = s.empty({64}, dtype), out = s.empty({64}, dtype);
    for (int64_t i = 0; i < 64; ++i) {
      const bool positive = dtype == DType::kUInt8;
      const auto value = [&](int64_t v) { return static_cast<double>(positive ? std::abs(v) : v); };
      test::set(a, i, value(bases[static_cast<size_t>(i / 8)]));
      test::set(b, i, value(exponents[static_cast<size_t>(i % 8)]));
    }
    s.pointwise(LoweredOp::kPowInt, {a, b}, out, {}, dtype);
    run();
    for (int64_t i = 0; i < 64; ++i) {
      const auto base = static_cast<int64_t>(test::get(a, i));
      const auto exponent = static_cast<int64_t>(test::get(b, i));
      uint64_t power = 1;
      for (int64_t k = 0; k < exponent; ++k) power *= static_cast<uint64_t>(base);
      if (exponent < 0) power = base == 1 ? 1 : 0;
      if (exponent < 0 && base == -1) power = exponent % 2 == 0 ? 1 : ~uint64_t{0};
      const Tensor expected = s.empty({1}, dtype);  // the low bytes
      std::memcpy(expected.storage->address(), &power, element_size(dtype));
      ASSERT_EQ(test::get(out, i), test::get(expected, 0))
          << name(dtype) << base << " " << exponent;
    }
  }
}

TEST_F(LoweringTest, GradientsWithTwoResults) {
  const Tensor g = random({4, 6}, DType::kFloat32, -1, 1);
  const Tensor x = random({4, 12}, DType::kFloat32, -2, 2), w = random({6}, DType::kFloat32, 0, 1);
  const Tensor a = x.slice(1, 0, 6), b = x.slice(1, 6, 6);
  const Tensor dx = s.empty({4, 12}), da = s.empty({4, 6}), dw = s.empty({4, 6});
  AttributeWriter words;
  words.structural(static_cast<int64_t>(DType::kFloat32));
  words.structural(0);
  s.record(LoweredOp::kGluBackward, {g, a, b}, {dx.slice(1, 0, 6), dx.slice(1, 6, 6)}, words);
  s.record(LoweredOp::kPreluBackward, {g, a, w}, {da, dw}, words);
  run();
  for (int64_t i = 0; i < 24; ++i) {
    const double grad = test::get(g, i), u = test::get(a, i), gate = sigmoid(test::get(b, i));
    EXPECT_NEAR(test::get(dx.slice(1, 0, 6), i), grad * gate, 1e-6);
    EXPECT_NEAR(test::get(dx.slice(1, 6, 6), i), grad * u * gate * (1 - gate), 1e-6);
    EXPECT_NEAR(test::get(da, i), u > 0 ? grad : grad * test::get(w, i % 6), 1e-6);
    EXPECT_NEAR(test::get(dw, i), u > 0 ? 0 : grad * u, 1e-6);
  }
}

TEST_F(LoweringTest, DivisionByZeroIsReported) {
  const Tensor a = s.empty({4}, DType::kInt32), b = s.empty({4}, DType::kInt32);
  const Tensor out = s.empty({4}, DType::kInt32);
  for (int64_t i = 0; i < 4; ++i) {
    test::set(a, i, 5);
    test::set(b, i, static_cast<double>(i));
  }
  s.pointwise(LoweredOp::kDivTrunc, {a, b}, out, {}, DType::kInt32);
  const auto errors = test::run_window(s.window(), EagerMode::kStrict, /*may_fail=*/true);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("ZeroDivisionError"), std::string::npos);
  EXPECT_TRUE(out.storage->poisoned());
}

}  // namespace
}  // namespace neuron
