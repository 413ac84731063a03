// SPDX-License-Identifier: Apache-2.0
//
// The shipped list covers the operator table, and the calls that models make.
#include "neuron/eager/shipped_kernels.h"

#include <map>
#include <set>

#include "core/eager_testing.h"
#include "neuron/eager/shipped_collector.h"

namespace neuron {
namespace {

using test::Session;
using test::Tensor;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kBF16 = DType::kBFloat16;
constexpr DType kI64 = DType::kInt64;
constexpr DType kBool = DType::kBool;

// Families whose operations are compiled when they are met.
bool is_shipped(OpFamily family) { return family != OpFamily::kWeightNorm; }

TEST(ShippedKernels, EveryOperationHasSome) {
  int operations = 0;
  for (uint32_t id = 0; id <= UINT16_MAX; ++id) {
    const auto op = static_cast<OpId>(id);
    if (!is_lowered(op) || !is_shipped(op_info(op).family)) continue;
    EXPECT_FALSE(shipped_kernels(static_cast<LoweredOp>(op)).empty()) << op_info(op).id;
    ++operations;
  }
  EXPECT_GT(operations, 100);
}

TEST(ShippedKernels, AreSoundAndDiffer) {
  const std::vector<LoopNest> nests = shipped_kernels();
  std::set<std::string> texts;
  for (const LoopNest& nest : nests) {
    EXPECT_EQ(verify_message(nest), "");
    texts.insert(to_text(nest));
  }
  EXPECT_EQ(texts.size(), nests.size());
  // Bounds what a build costs: about 5 ms and 5 KB each and level.
  EXPECT_GT(nests.size(), 2000u);
  EXPECT_LT(nests.size(), 10000u);
}

TEST(ShippedCollector, LayoutsAreStrides) {
  AttributeWriter a;
  a.structural(static_cast<int64_t>(kF32));
  a.structural(0);
  const auto strides = [&](const char* shape, const char* input, const char* output) {
    ShippedCollector c;
    c.add(LoweredOp::kCopy, shape, {{kF32, input}}, {{kF32, output}}, a);
    const LoopNest nest = c.take().back();
    std::string text;
    for (const NestOperand& o : nest.operands) {
      for (int d = 0; d < nest.rank(); ++d) text += "0us"[static_cast<size_t>(o.strides[d])];
      text += ' ';
    }
    return text;
  };
  EXPECT_EQ(strides("abc", "abc", "abc"), "u u ");
  EXPECT_EQ(strides("abc", "ab_c", "abc"), "su su ");
  EXPECT_EQ(strides("abc", "a_b_c", "abc"), "ssu ssu ");
  EXPECT_EQ(strides("abc", "acb", "abc"), "sus ssu ");
  EXPECT_EQ(strides("ab", "b", "ab"), "0u su ");
  EXPECT_EQ(strides("ab", "a", "ab"), "u0 su ");
  EXPECT_EQ(strides("ab", "", "ab"), "0 u ");
  EXPECT_EQ(strides("ab", "ab_", "ab"), "s u ");
  EXPECT_EQ(strides("az", "az", "az"), "u u ");
}

// What a small transformer records, with its own sizes: the kernels of each call are shipped.
class ShippedForModels : public ::testing::Test {
 protected:
  ~ShippedForModels() override {
    const WindowForm& form = s.form();
    const Plan plan = make_plan(form, {.fuse = false});
    EXPECT_GE(plan.steps.size(), 3u);
    for (const Step& step : plan.steps) {
      const OpRecord& record = *form.nodes[static_cast<size_t>(step.nodes.front())].record;
      std::set<std::string>& known = shipped_[record.op];
      if (known.empty()) {
        for (const LoopNest& nest : shipped_kernels(static_cast<LoweredOp>(record.op))) {
          known.insert(to_text(nest));
        }
      }
      const std::string text = to_text(step.fused.nest);
      EXPECT_TRUE(known.contains(text)) << op_info(record.op).id << "\n" << text;
    }
  }

  static constexpr int64_t kBatch = 2, kHeads = 4, kLength = 10, kWidth = 24;
  Session s;
  std::map<OpId, std::set<std::string>> shipped_;
};

TEST_F(ShippedForModels, Attention) {
  for (DType t : {kF32, kBF16}) {
    const int64_t head = kWidth / kHeads;
    const Tensor qkv = s.empty({kBatch, kLength, 3 * kWidth}, t);
    const Tensor bias = s.empty({3 * kWidth}, t);
    s.pointwise(LoweredOp::kAdd, {qkv, bias}, qkv);
    const Tensor q = qkv.slice(2, kWidth, kWidth);
    // [batch, heads, length, head] as views of the projection.
    Tensor split = q;
    split.sizes = {kBatch, kHeads, kLength, head};
    split.strides = {q.strides[0], head, q.strides[1], 1};
    const Tensor k = s.empty(split.sizes, t);
    s.pointwise(LoweredOp::kCopy, {split}, k);
    s.pointwise(LoweredOp::kCopy, {split.transpose(2, 3)},
                s.empty({kBatch, kHeads, head, kLength}, t));
    const Tensor scores = s.empty({kBatch, kHeads, kLength, kLength}, t);
    s.with_scalar(LoweredOp::kDiv, scores, 8.0, scores);
    const Tensor causal = s.empty({kLength, kLength}, kBool);
    const Tensor padding = s.empty({kBatch, 1, 1, kLength}, t);
    s.pointwise(LoweredOp::kAdd, {scores, padding}, scores);
    AttributeWriter fill;
    fill.structural(static_cast<int64_t>(t));
    fill.structural(0b100);
    fill.value(-1e9);
    s.record(LoweredOp::kMaskedFill, {scores, causal}, {scores}, fill);
    s.softmax(LoweredOp::kSoftmax, {scores}, 3, scores);
    const Tensor joined = s.empty({kBatch, kLength, kHeads, head}, t);
    s.pointwise(LoweredOp::kCopy, {k.transpose(1, 2)}, joined);
    s.softmax(LoweredOp::kSoftmaxBackward, {s.empty(scores.sizes, t), scores}, 3, scores);
  }
}

TEST_F(ShippedForModels, RotaryEmbedding) {
  for (DType t : {kF32, kBF16}) {
    const int64_t head = kWidth / kHeads;
    const Tensor q = s.empty({kBatch, kLength, kHeads, head}, t).transpose(1, 2);
    const Tensor cos = s.empty({kBatch, 1, kLength, head}, t);
    const Tensor rotated = s.empty({kBatch, kLength, kHeads, head}, t).transpose(1, 2);
    s.pointwise(LoweredOp::kMul, {q, cos}, rotated);
    s.pointwise(LoweredOp::kNeg, {q.slice(3, head / 2, head / 2)}, rotated.slice(3, 0, head / 2));
    s.pointwise(LoweredOp::kCopy, {q.slice(3, 0, head / 2)}, rotated.slice(3, head / 2, head / 2));
    s.pointwise(LoweredOp::kAdd, {q, rotated}, rotated);
  }
}

TEST_F(ShippedForModels, Norms) {
  const Tensor x = s.empty({kBatch, kLength, kWidth}), y = s.empty(x.sizes);
  const Tensor weight = s.empty({kWidth}), bias = s.empty({kWidth});
  const Tensor mean = s.empty({kBatch, kLength, 1}), rstd = s.empty({kBatch, kLength, 1});
  s.layer_norm(x, weight, bias, 1, 1e-5, y, mean, rstd);
  s.layer_norm_backward({y, x, mean, rstd, weight}, 1, 0b111,
                        {s.empty(x.sizes), s.empty({kWidth}), s.empty({kWidth})});
  // RMS norm by hand.
  s.pointwise(LoweredOp::kSquare, {x}, y);
  s.reduce(LoweredOp::kMean, y, {2}, true, {mean});
  s.with_scalar(LoweredOp::kAdd, mean, 1e-6, rstd);
  s.pointwise(LoweredOp::kRsqrt, {rstd}, rstd);
  s.pointwise(LoweredOp::kMul, {x, rstd}, y);
  s.pointwise(LoweredOp::kMul, {weight, y}, y);
}

TEST_F(ShippedForModels, MixedPrecision) {
  const Tensor x = s.empty({kBatch, kLength, kWidth}), y = s.empty(x.sizes, kBF16);
  s.pointwise(LoweredOp::kCopy, {x}, y, {}, kBF16);
  s.pointwise(LoweredOp::kSilu, {y}, y);
  s.pointwise(LoweredOp::kAdd, {x, y}, x, {}, kF32);
  s.pointwise(LoweredOp::kCopy, {y}, s.empty(x.sizes));
  s.pointwise(LoweredOp::kCopy, {x.reshape({kBatch * kLength, kWidth}).transpose(0, 1)},
              s.empty({kWidth, kBatch * kLength}, kBF16), {}, kBF16);
  const Tensor loss = s.empty({}), scale = s.empty({});
  s.pointwise(LoweredOp::kMul, {loss, scale}, loss);
  s.pointwise(LoweredOp::kMul, {y, scale}, y, {}, kBF16);
}

TEST_F(ShippedForModels, LossesAndMasks) {
  const Tensor logits = s.empty({kLength, 50}), probabilities = s.empty(logits.sizes);
  s.softmax(LoweredOp::kLogSoftmax, {logits}, 1, probabilities);
  s.softmax(LoweredOp::kLogSoftmaxBackward, {s.empty(logits.sizes), probabilities}, 1, logits);
  const Tensor labels = s.empty({kBatch, kLength}, kI64), ignored = s.empty(labels.sizes, kBool);
  s.with_scalar(LoweredOp::kNe, labels, -100, ignored);
  s.reduce(LoweredOp::kArgmax, logits, {1}, false, {s.empty({kLength}, kI64)});
  const Tensor column = s.empty({kLength, 1}, kI64), row = s.empty({kLength}, kI64);
  s.pointwise(LoweredOp::kLe, {row, column}, s.empty({kLength, kLength}, kBool));
  const Tensor total = s.empty({});
  s.reduce(LoweredOp::kSum, logits, {0, 1}, false, {total});
  s.reduce(LoweredOp::kSum, logits, {0}, false, {s.empty({50})});
  s.reduce(LoweredOp::kMean, logits, {0, 1}, false, {total});
  s.fill(logits, 0);
  s.fill(total, 1);
}

}  // namespace
}  // namespace neuron
