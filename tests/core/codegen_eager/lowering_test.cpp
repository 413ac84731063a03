// SPDX-License-Identifier: Apache-2.0
//
// Every lowered operation alone, through its kernel, against its definition in double.
#include "neuron/lower/lowering.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "core/codegen_eager/test_kernels.h"
#include "core/eager_testing.h"
#include "neuron/host/half.h"

namespace neuron {
namespace {

using test::Session;
using test::Sizes;
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

class LoweringTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSize = 147;

  Tensor random(const Sizes& sizes, DType dtype, double low, double high) {
    std::uniform_real_distribution<double> uniform(low, high);
    Tensor t = s.empty(sizes, dtype);
    for (int64_t i = 0; i < t.numel(); ++i) test::set(t, i, uniform(random_));
    return t;
  }

  void run() { test::run_window(s.window(), EagerMode::kStrict); }

  // Values of the operands at element i, then the case's own.
  static std::vector<double> arguments(const std::vector<Tensor>& operands, int64_t i,
                                       const Case& c) {
    std::vector<double> v;
    for (const Tensor& t : operands) v.push_back(test::get(t, i));
    v.insert(v.end(), c.values.begin(), c.values.end());
    return v;
  }

  std::mt19937 random_{7};
  Session s;
};

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
      const bool masked = c.op == LoweredOp::kWhere || c.op == LoweredOp::kMaskedFill;
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
