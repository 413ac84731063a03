// SPDX-License-Identifier: Apache-2.0
//
// Graphs: text form, verifier, builder.
#include "neuron/ir/graph.h"

#include <gtest/gtest.h>

#include <limits>

#include "neuron/base/error.h"

namespace neuron {
namespace {

constexpr const char* kSoftmax =
    "graph parallel=1 rows=1\n"
    "input bf16[a0,a1]\n"
    "scalar f32\n"
    "%0 = input 0 : bf16[a0,a1]\n"
    "%1 = convert %0 : f32[a0,a1]\n"
    "%2 = scalar 0 : f32[]\n"
    "%3 = multiply %1 %2 : f32[a0,a1]\n"
    "%4 = reduce_max %3 : f32[a0]\n"
    "%5 = subtract %3 %4 : f32[a0,a1]\n"
    "%6 = exponential %5 : f32[a0,a1]\n"
    "%7 = reduce_add %6 : f32[a0]\n"
    "%8 = divide %6 %7 : f32[a0,a1]\n"
    "%9 = convert %8 : bf16[a0,a1]\n"
    "output %9 : [a0,a1]\n";

std::string error_of(const std::string& text) {
  try {
    return verify_message(parse_graph(text));
  } catch (const Error& e) {
    return e.message();
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(GraphTest, TextIsReadBack) {
  const Graph graph = parse_graph(kSoftmax);
  EXPECT_EQ(verify_message(graph), "");
  EXPECT_EQ(to_text(graph), kSoftmax);
}

TEST(GraphTest, BuilderMakesTheSameGraph) {
  GraphBuilder b(1, 1);
  const ValueId x = b.convert(DType::kFloat32, b.input(b.add_input(DType::kBFloat16, 0b11)));
  const ValueId scaled = b.binary(IrOp::kMul, x, b.scalar(b.add_scalar(DType::kFloat32)));
  const ValueId e =
      b.unary(IrOp::kExp, b.binary(IrOp::kSub, scaled, b.reduce(IrOp::kReduceMax, scaled)));
  const ValueId y = b.binary(IrOp::kDiv, e, b.reduce(IrOp::kReduceSum, e));
  b.output(b.convert(DType::kBFloat16, y), 0b11);
  EXPECT_EQ(to_text(b.finish()), kSoftmax);
}

TEST(GraphTest, EqualValuesAreOneAndUnusedOnesGo) {
  GraphBuilder b(1, 0);
  const int in = b.add_input(DType::kFloat32, 1);
  const ValueId x = b.input(in);
  EXPECT_EQ(b.unary(IrOp::kExp, x), b.unary(IrOp::kExp, b.input(in)));
  b.unary(IrOp::kTanh, x);
  b.output(b.unary(IrOp::kExp, x), 1);
  EXPECT_EQ(b.finish().values.size(), 2u);
}

TEST(GraphTest, ConstantsKeepTheirBits) {
  GraphBuilder b(1, 0);
  const double values[] = {0.1, -0.0, std::numeric_limits<double>::infinity(), 1e300};
  for (double v : values) {
    b.output(b.constant(DType::kFloat64, v), 1);
    b.output(b.constant(DType::kFloat32, v), 1);
  }
  b.output(b.constant_int(DType::kInt8, -1), 1);
  b.output(b.constant_int(DType::kInt64, std::numeric_limits<int64_t>::min()), 1);
  b.output(b.constant_int(DType::kBool, 7), 1);
  const Graph graph = b.finish();
  EXPECT_EQ(parse_graph(to_text(graph)), graph);
  EXPECT_NE(to_text(graph).find("constant #ff : i8[]"), std::string::npos);
  EXPECT_NE(to_text(graph).find("constant #1 : i1[]"), std::string::npos);
}

TEST(GraphTest, AppendRenamesAxesInputsAndScalars) {
  const Graph inner = parse_graph(kSoftmax);
  GraphBuilder b(2, 1);
  const ValueId x = b.input(b.add_input(DType::kBFloat16, 0b111));
  b.add_scalar(DType::kFloat64);
  const int scalar = b.add_scalar(DType::kFloat32);
  const std::vector<GraphOutput> results = b.append(inner, {{0}, {2}}, {x}, {scalar});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(b.value(results[0].value).axes, 0b111);
  b.output(results[0].value, 0b111);
  const std::string text = to_text(b.finish());
  EXPECT_NE(text.find("scalar 1 : f32[]"), std::string::npos);
  EXPECT_NE(text.find("reduce_max %3 : f32[a0,a1]"), std::string::npos);
}

constexpr const char* kScatter =
    "graph parallel=1 rows=1\n"
    "input f32[a0]\n"
    "input i64[a1]\n"
    "scalar i64\n"
    "%0 = input 1 : i64[a1]\n"
    "%1 = scalar 0 : i64[]\n"
    "%2 = check_index %0 %1 : i64[a1]\n"
    "%3 = lt %0 %1 : i1[a1]\n"
    "%4 = gather 0 %2 %3 : f32[a0,a1]\n"
    "output %4 : [a0] add at %2 if %3\n"
    "output %4 : [a0] maximum at %2\n";

TEST(GraphTest, GathersAndScattersAreReadBack) {
  const Graph graph = parse_graph(kScatter);
  EXPECT_EQ(verify_message(graph), "");
  EXPECT_EQ(to_text(graph), kScatter);
  EXPECT_EQ(error_of(replaced(kScatter, "gather 0 %2", "gather 2 %2")),
            "%4 (gather): no such input");
  EXPECT_EQ(error_of(replaced(kScatter, "gather 0 %2", "gather 0 %3")),
            "%4 (gather): the offset is i64");
  EXPECT_EQ(error_of(replaced(kScatter, "add at %2", "add at %3")),
            "an output's offset is not i64");
  EXPECT_EQ(error_of(replaced(kScatter, "if %3", "if %2")), "an output's mask is not i1");
  EXPECT_EQ(error_of(replaced(kScatter, "[a0] maximum at %2", "[a0]")),
            "an output lacks axes of its value");
  EXPECT_EQ(error_of(replaced(kScatter, "add at %2 if", "plus at %2 if")),
            "graph, line 10: unexpected 'plus'");
}

TEST(GraphTest, AppendKeepsPositionsOfSplitAxes) {
  GraphBuilder inner(1, 0);
  const int in = inner.add_input(DType::kFloat32, 1);
  const ValueId at = inner.index(0);
  inner.output(inner.gather(in, at), 1);
  inner.output({.value = inner.input(in), .axes = 1, .combine = Combine::kAdd, .offset = at});
  const Graph graph = inner.finish();
  GraphBuilder b(2, 0);
  b.add_input(DType::kFloat64, 0);
  const ValueId x = b.input(b.add_input(DType::kFloat32, 0b11));
  const std::vector<GraphOutput> outputs = b.append(graph, {{1, 0}}, {x}, {});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(b.value(outputs[0].value).attr, 1);
  // index(a1) * extent(a0) + index(a0)
  const Value sum = b.value(b.value(outputs[0].value).args[0]);
  ASSERT_EQ(sum.op, IrOp::kAdd);
  const Value product = b.value(sum.args[0]);
  EXPECT_EQ(b.value(product.args[0]).attr, 1);
  EXPECT_EQ(b.value(product.args[1]).op, IrOp::kExtent);
  EXPECT_EQ(b.value(sum.args[1]).attr, 0);
  EXPECT_EQ(outputs[1].offset, b.value(outputs[0].value).args[0]);
}

TEST(GraphTest, RandomWordsAreReadBackAndChecked) {
  GraphBuilder b(1, 0);
  const ValueId key = b.scalar(b.add_scalar(DType::kInt64));
  const ValueId first = b.philox(key, b.index(0), key, 0), last = b.philox(key, b.index(0), key, 3);
  EXPECT_NE(first, last);
  b.output(first, 1);
  b.output(last, 1);
  const Graph graph = b.finish();
  EXPECT_EQ(parse_graph(to_text(graph)), graph);
  EXPECT_NE(to_text(graph).find("philox 3 %0 %1 %0 : i32[a0]"), std::string::npos);
  Graph wrong = graph;
  wrong.values.back().attr = 4;
  EXPECT_NE(verify_message(wrong).find("no such word"), std::string::npos);
}

TEST(GraphTest, VerifierNamesTheBrokenRule) {
  EXPECT_EQ(error_of(replaced(kSoftmax, "%3 = multiply %1 %2 : f32", "%3 = multiply %1 %2 : f64")),
            "%3 (multiply): arguments and result differ in dtype");
  EXPECT_EQ(
      error_of(replaced(kSoftmax, "%4 = reduce_max %3 : f32[a0]", "%4 = reduce_max %3 : f32[a1]")),
      "%4 (reduce_max): its axes do not follow from its arguments");
  EXPECT_EQ(error_of(replaced(kSoftmax, "%1 = convert %0", "%1 = convert %3")),
            "%1 (convert): argument %3 is not an earlier value");
  EXPECT_EQ(error_of(replaced(kSoftmax, "%1 = convert %0", "%1 = convert")),
            "%1 (convert): takes 1 arguments");
  EXPECT_EQ(error_of(replaced(kSoftmax, "input 0 :", "input 1 :")), "%0 (input): no such input");
  EXPECT_EQ(error_of(replaced(kSoftmax, "output %9 : [a0,a1]", "output %9 : [a0]")),
            "an output lacks axes of its value");
  EXPECT_EQ(error_of(replaced(kSoftmax, "rows=1", "rows=0")),
            "an input has an axis that does not exist");
  EXPECT_EQ(error_of(replaced(kSoftmax, "output %9 : [a0,a1]\n", "")), "the graph has no output");
}

TEST(GraphTest, ParserNamesTheLine) {
  EXPECT_EQ(error_of("graph parallel=1 rows=0\n%0 = inputs 0 : f32[a0]\n"),
            "graph, line 2: unknown operation 'inputs'");
  EXPECT_EQ(error_of("graph parallel=1 rows=0\ninput f33[a0]\n"),
            "graph, line 2: 'f33' is not a dtype");
  EXPECT_EQ(error_of("graph parallel=1 rows=0\ninput f32[a0,b1]\n"),
            "graph, line 2: 'b1' is not an axis");
  EXPECT_EQ(error_of("graph parallel=1\n"), "graph, line 1: ends early");
  EXPECT_EQ(error_of("graph parallel=1 rows=0\n%1 = constant #0 : f32[]\n"),
            "graph, line 2: unexpected '%1'");
}

}  // namespace
}  // namespace neuron
