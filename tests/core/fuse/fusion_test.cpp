// SPDX-License-Identifier: Apache-2.0
//
// Which operations become one kernel, and which must not. Plans are compared by their step lines.
#include "neuron/fuse/fusion.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/eager_testing.h"

namespace neuron {
namespace {

using test::Session;
using test::Sizes;
using test::Tensor;

constexpr DType kBF16 = DType::kBFloat16;

// "kernel pointwise Add Mul", "host ...": one line per step.
std::vector<std::string> steps(Session& s, const FusionOptions& options = {}) {
  std::istringstream text(s.plan(options));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("kernel") || line.starts_with("host")) lines.push_back(line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

class FusionTest : public ::testing::Test {
 protected:
  Tensor unary(LoweredOp op, const Tensor& x) {
    Tensor y = s.empty(x.sizes, x.dtype);
    s.pointwise(op, {x}, y);
    return y;
  }
  Tensor binary(LoweredOp op, const Tensor& a, const Tensor& b) {
    Tensor y = s.empty(a.sizes, a.dtype);
    s.pointwise(op, {a, b}, y, {}, a.dtype);
    return y;
  }
  Tensor reduce(LoweredOp op, const Tensor& x, std::vector<size_t> dims) {
    Sizes sizes = x.sizes;
    for (size_t d : dims) sizes[d] = 1;
    Tensor y = s.empty(sizes, x.dtype);
    s.reduce(op, x, dims, true, {y});
    return y;
  }

  Session s;
};

TEST_F(FusionTest, AChainIsOneKernelThatKeepsNoTemporaries) {
  const Tensor x = s.empty({8, 16});
  Tensor y = unary(LoweredOp::kTanh, x);
  for (int i = 0; i < 3; ++i) y = unary(LoweredOp::kNeg, y);
  EXPECT_EQ(s.plan(),
            "kernel pointwise Tanh Neg Neg Neg\n"
            "graph parallel=1 rows=0\n"
            "input f32[a0]\n"
            "%0 = input 0 : f32[a0]\n"
            "%1 = tanh %0 : f32[a0]\n"
            "%2 = negate %1 : f32[a0]\n"
            "%3 = negate %2 : f32[a0]\n"
            "%4 = negate %3 : f32[a0]\n"
            "output %4 : [a0]\n");
}

TEST_F(FusionTest, ALiveIntermediateIsStored) {
  const Tensor x = s.empty({8, 16});
  const Tensor kept = unary(LoweredOp::kTanh, x);
  const Tensor y = unary(LoweredOp::kNeg, kept);
  EXPECT_EQ(steps(s), Lines{"kernel pointwise Tanh Neg"});
  EXPECT_NE(s.plan().find("output %1"), std::string::npos);
  EXPECT_NE(s.plan().find("output %2"), std::string::npos);
}

TEST_F(FusionTest, StrictKernelsHoldOneOperation) {
  const Tensor x = s.empty({8, 16});
  const Tensor y = unary(LoweredOp::kNeg, unary(LoweredOp::kTanh, x));
  EXPECT_EQ(steps(s, {.fuse = false}), (Lines{"kernel pointwise Tanh", "kernel pointwise Neg"}));
}

TEST_F(FusionTest, HalfPrecisionRoundsBetweenOperations) {
  const Tensor x = s.empty({64}, kBF16);
  const Tensor y = unary(LoweredOp::kNeg, unary(LoweredOp::kTanh, x));
  EXPECT_EQ(s.plan(),
            "kernel pointwise Tanh Neg\n"
            "graph parallel=1 rows=0\n"
            "input bf16[a0]\n"
            "%0 = input 0 : bf16[a0]\n"
            "%1 = convert %0 : f32[a0]\n"
            "%2 = tanh %1 : f32[a0]\n"
            "%3 = convert %2 : bf16[a0]\n"
            "%4 = convert %3 : f32[a0]\n"
            "%5 = negate %4 : f32[a0]\n"
            "%6 = convert %5 : bf16[a0]\n"
            "output %6 : [a0]\n");
}

TEST_F(FusionTest, ABroadcastBiasJoinsTheFlatChain) {
  const Tensor x = s.empty({8, 4, 16}), bias = s.empty({16});
  const Tensor y =
      unary(LoweredOp::kGelu, binary(LoweredOp::kAdd, unary(LoweredOp::kNeg, x), bias));
  EXPECT_EQ(steps(s), Lines{"kernel pointwise Neg Add Gelu"});
}

TEST_F(FusionTest, AReshapeBetweenOperationsIsNoObstacle) {
  const Tensor x = s.empty({8, 4, 16}), bias = s.empty({16});
  const Tensor y = binary(LoweredOp::kAdd, unary(LoweredOp::kNeg, x).reshape({32, 16}), bias);
  EXPECT_EQ(steps(s), Lines{"kernel pointwise Neg Add"});
}

TEST_F(FusionTest, ATransposedReadIsNoObstacle) {
  const Tensor x = s.empty({8, 16}), z = s.empty({16, 8});
  const Tensor y = binary(LoweredOp::kAdd, z, unary(LoweredOp::kNeg, x).transpose(0, 1));
  EXPECT_EQ(steps(s), Lines{"kernel pointwise Neg Add"});
}

TEST_F(FusionTest, AValueReadInTwoOrdersGoesThroughMemory) {
  const Tensor x = s.empty({8, 8});
  const Tensor a = unary(LoweredOp::kNeg, x);
  const Tensor y = binary(LoweredOp::kAdd, a, a.transpose(0, 1));
  EXPECT_EQ(steps(s), (Lines{"kernel pointwise Neg", "kernel pointwise Add"}));
}

TEST_F(FusionTest, ASliceOfAResultGoesThroughMemory) {
  const Tensor x = s.empty({8, 16});
  const Tensor y = unary(LoweredOp::kTanh, unary(LoweredOp::kNeg, x).slice(1, 0, 4));
  EXPECT_EQ(steps(s), (Lines{"kernel pointwise Neg", "kernel pointwise Tanh"}));
}

TEST_F(FusionTest, InPlaceOperationsStoreOnce) {
  const Tensor x = s.empty({64}), other = s.empty({64});
  s.pointwise(LoweredOp::kAdd, {x, other}, x);
  s.pointwise(LoweredOp::kMul, {x, other}, x);
  EXPECT_EQ(s.plan(),
            "kernel pointwise Add Mul\n"
            "graph parallel=1 rows=0\n"
            "input f32[a0]\n"
            "input f32[a0]\n"
            "%0 = input 0 : f32[a0]\n"
            "%1 = input 1 : f32[a0]\n"
            "%2 = add %0 %1 : f32[a0]\n"
            "%3 = multiply %2 %1 : f32[a0]\n"
            "output %3 : [a0]\n");
}

TEST_F(FusionTest, AnOverwriteWaitsForAReadOfOtherElements) {
  const Tensor x = s.empty({64}), y = s.empty({32});
  s.pointwise(LoweredOp::kNeg, {x.slice(0, 16, 32)}, y);
  s.pointwise(LoweredOp::kTanh, {y}, x.slice(0, 0, 32));
  EXPECT_EQ(steps(s), (Lines{"kernel pointwise Neg", "kernel pointwise Tanh"}));
}

TEST_F(FusionTest, SoftmaxTakesItsPrologueAndEpilogue) {
  const Tensor x = s.empty({8, 4, 16}), mask = s.empty({4, 16});
  const Tensor scaled = s.empty(x.sizes);
  s.with_scalar(LoweredOp::kMul, x, 0.125, scaled);
  const Tensor masked = binary(LoweredOp::kAdd, scaled, mask);
  const Tensor p = s.empty(x.sizes);
  s.softmax(LoweredOp::kSoftmax, {masked}, 2, p);
  const Tensor y = unary(LoweredOp::kNeg, p);
  EXPECT_EQ(steps(s), Lines{"kernel row Mul Add Softmax Neg"});
}

TEST_F(FusionTest, RmsNormByHandIsOneKernel) {
  const Tensor x = s.empty({8, 4, 16}), weight = s.empty({16});
  const Tensor square = unary(LoweredOp::kSquare, x);
  const Tensor mean = reduce(LoweredOp::kMean, square, {2});
  const Tensor shifted = s.empty(mean.sizes);
  s.with_scalar(LoweredOp::kAdd, mean, 1e-6, shifted);
  const Tensor scale = unary(LoweredOp::kRsqrt, shifted);
  const Tensor y = binary(LoweredOp::kMul, binary(LoweredOp::kMul, x, scale), weight);
  EXPECT_EQ(steps(s), Lines{"kernel row Square Mean Add Rsqrt Mul Mul"});
}

TEST_F(FusionTest, AReductionOverColumnsTakesItsPrologue) {
  const Tensor x = s.empty({32, 16}), grad = s.empty({32, 16});
  const Tensor g = s.empty(x.sizes);
  s.pointwise(LoweredOp::kGeluBackward, {grad, x}, g);
  const Tensor bias = reduce(LoweredOp::kSum, g, {0});
  EXPECT_EQ(steps(s), Lines{"kernel column GeluBackward Sum"});
}

TEST_F(FusionTest, RowsAndColumnsOfOneTensorStayApart) {
  const Tensor x = s.empty({32, 16});
  const Tensor y = unary(LoweredOp::kNeg, x);
  const Tensor rows = reduce(LoweredOp::kSum, y, {1});
  const Tensor columns = reduce(LoweredOp::kSum, y, {0});
  EXPECT_EQ(steps(s), (Lines{"kernel row Neg Sum", "kernel column Sum"}));
}

TEST_F(FusionTest, AFullReductionGetsNoSecondPass) {
  const Tensor x = s.empty({32, 16});
  const Tensor total = reduce(LoweredOp::kSum, x, {0, 1});
  const Tensor y = binary(LoweredOp::kDiv, x, total);
  EXPECT_EQ(steps(s), (Lines{"kernel split Sum", "kernel pointwise Div"}));
}

TEST_F(FusionTest, LayerNormTakesTheResidualBeforeIt) {
  const Tensor x = s.empty({8, 4, 16}), r = s.empty({8, 4, 16});
  const Tensor w = s.empty({16}), b = s.empty({16});
  const Tensor sum = binary(LoweredOp::kAdd, x, r);
  const Tensor y = s.empty(x.sizes), mean = s.empty({8, 4, 1}), rstd = s.empty({8, 4, 1});
  s.layer_norm(sum, w, b, 1, 1e-5, y, mean, rstd);
  EXPECT_EQ(steps(s), Lines{"kernel row Add LayerNorm"});
}

TEST_F(FusionTest, LayerNormGradientsAreARowAndAColumnKernel) {
  const Tensor x = s.empty({32, 16}), g = s.empty({32, 16}), w = s.empty({16});
  const Tensor mean = s.empty({32, 1}), rstd = s.empty({32, 1});
  const Tensor dx = s.empty({32, 16}), dw = s.empty({16}), db = s.empty({16});
  s.layer_norm_backward({g, x, mean, rstd, w}, 1, 0b111, {dx, dw, db});
  EXPECT_EQ(steps(s), (Lines{"kernel row LayerNormBackward", "kernel column LayerNormBackward"}));
}

TEST_F(FusionTest, AKernelWaitsForAHostCallOnlyIfItMust) {
  const Tensor x = s.empty({64}), unrelated = s.empty({64});
  const Tensor y = unary(LoweredOp::kNeg, x);
  s.host([] {}, {unrelated}, {unrelated});
  const Tensor z = unary(LoweredOp::kTanh, y);
  EXPECT_EQ(steps(s).size(), 2u);
  s.host([] {}, {z}, {z});
  const Tensor u = unary(LoweredOp::kExp, z);
  EXPECT_EQ(steps(s), (Lines{"host test::lambda", "kernel pointwise Neg Tanh", "host test::lambda",
                             "kernel pointwise Exp"}));
}

TEST_F(FusionTest, TwoChainsMeetInOneKernel) {
  const Tensor a = s.empty({64}), b = s.empty({64}), unrelated = s.empty({64});
  const Tensor x = unary(LoweredOp::kTanh, a);
  s.host([] {}, {unrelated}, {unrelated});
  const Tensor y = unary(LoweredOp::kExp, b);
  const Tensor z = binary(LoweredOp::kMul, x, y);
  EXPECT_EQ(steps(s), (Lines{"host test::lambda", "kernel pointwise Tanh Exp Mul"}));
}

TEST_F(FusionTest, AnOperationThatMayRaiseRunsAlone) {
  const Tensor a = s.empty({64}, DType::kInt32), b = s.empty({64}, DType::kInt32);
  const Tensor y = unary(LoweredOp::kNeg, binary(LoweredOp::kDivFloor, a, b));
  EXPECT_EQ(steps(s), (Lines{"kernel pointwise DivFloor", "kernel pointwise Neg"}));
}

TEST_F(FusionTest, WhatNobodyReadsIsNotComputed) {
  const Tensor x = s.empty({64});
  unary(LoweredOp::kTanh, x);
  const Tensor y = unary(LoweredOp::kNeg, x);
  EXPECT_EQ(steps(s), Lines{"kernel pointwise Neg"});
}

TEST_F(FusionTest, TheKernelLimitCutsLongChains) {
  Tensor y = s.empty({64});
  for (int i = 0; i < 10; ++i) y = unary(LoweredOp::kNeg, y);
  EXPECT_EQ(steps(s, {.max_nodes = 4}).size(), 3u);
}

}  // namespace
}  // namespace neuron
