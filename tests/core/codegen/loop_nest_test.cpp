// SPDX-License-Identifier: Apache-2.0
//
// The nest as data: text form, verifier, builder and analysis.
#include "core/codegen/kernel_testing.h"

namespace neuron::testing {
namespace {

LoopNest softmax() {
  NestBuilder b(Schedule::kRow, 1, 1);
  int in = b.operand(kBF16, {kAny, kUnit}), out = b.operand(kBF16, {kAny, kUnit});
  NodeId x = b.cast(kF32, b.load(in));
  NodeId e = b.unary(NestOp::kExp, b.binary(NestOp::kSub, x, b.reduce(NestOp::kReduceMax, x)));
  b.store(out, b.cast(kBF16, b.binary(NestOp::kDiv, e, b.reduce(NestOp::kReduceSum, e))));
  return b.finish();
}

TEST(LoopNestText, IsCanonicalAndReadsBack) {
  LoopNest nest = softmax();
  EXPECT_EQ(to_text(nest),
            "nest row parallel=1 rows=1\n"
            "operand bf16 [s,u]\n"
            "operand bf16 [s,u]\n"
            "%0 = load bf16 @0\n"
            "%1 = cast f32 %0\n"
            "%2 = reduce_max f32 %1\n"
            "%3 = sub f32 %1 %2\n"
            "%4 = exp f32 %3\n"
            "%5 = reduce_sum f32 %4\n"
            "%6 = div f32 %4 %5\n"
            "%7 = cast bf16 %6\n"
            "%8 = store bf16 @1 %7\n");
  EXPECT_EQ(parse_loop_nest(to_text(nest)), nest);
}

TEST(LoopNestText, KeepsAbsentArgumentsAndConstants) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int in = b.operand(kF32, {kUnit}), mask = b.operand(kBool, {kUnit}),
      out = b.operand(kF32, {kUnit});
  NodeId x = b.load(in, kNoNode, b.load(mask));
  b.store(out, b.binary(NestOp::kMul, x, b.constant(kF32, -1.5)));
  LoopNest nest = b.finish();
  EXPECT_NE(to_text(nest).find("load f32 @0 _ %0"), std::string::npos);
  EXPECT_NE(to_text(nest).find("const f32 #bfc00000"), std::string::npos);
  EXPECT_EQ(parse_loop_nest(to_text(nest)), nest);
}

TEST(LoopNestText, ErrorsNameTheLine) {
  auto message = [](const std::string& text) {
    try {
      parse_loop_nest(text);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(""), "loop nest, line 0: no nest line");
  EXPECT_EQ(message("nest diagonal parallel=1 rows=0\n"),
            "loop nest, line 1: unknown schedule diagonal");
  EXPECT_EQ(message("nest row parallel=1 rows=1\noperand f32 [u]\n"),
            "loop nest, line 2: wrong number of strides");
  EXPECT_EQ(message("nest row parallel=1 rows=1\n%1 = load f32 @0\n"),
            "loop nest, line 2: unexpected \"%1\"");
  EXPECT_EQ(message("nest row parallel=1 rows=1\n%0 = load f32 @x\n"),
            "loop nest, line 2: bad number in \"@x\"");
}

TEST(LoopNestVerifier, NamesTheBrokenRule) {
  LoopNest nest = softmax();
  auto broken = [&](auto change) {
    LoopNest copy = nest;
    change(copy);
    return verify_message(copy);
  };
  EXPECT_EQ(verify_message(nest), "");
  EXPECT_EQ(
      broken([](LoopNest& n) { n.nodes[3].args[1] = 0; }),
      "node 3 (sub): arguments and result have one dtype; arguments are f32 bf16, result f32");
  EXPECT_EQ(broken([](LoopNest& n) { n.nodes[3].args[1] = 3; }),
            "node 3 (sub): argument 3 is not an earlier node");
  EXPECT_EQ(broken([](LoopNest& n) { n.nodes[0].attr = 2; }), "node 0 (load): no operand 2");
  EXPECT_EQ(broken([](LoopNest& n) { n.schedule = Schedule::kPointwise; }),
            "pointwise has no row dims");
  EXPECT_EQ(broken([](LoopNest& n) { n.nodes.pop_back(); }), "the nest stores nothing");
  EXPECT_EQ(broken([](LoopNest& n) { n.operands[0].dtype = DType::kComplex64; }),
            "operand 0: no kernels for c64");
  EXPECT_EQ(broken([](LoopNest& n) { n.schedule = Schedule::kSplit; }),
            "split allows one pass over the rows, this nest needs 3");
  EXPECT_EQ(broken([](LoopNest& n) { n.operands[1].strides[1] = Stride::kZero; }),
            "node 8 (store): the value varies over dim 1, along which the operand has stride 0");
  EXPECT_THROW(verify(LoopNest{}), Error);
}

TEST(NestBuilder, EqualNodesAreOneButLoadsDoNotCrossStores) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int x = b.operand(kF32, {kUnit}), y = b.operand(kF32, {kUnit});
  NodeId first = b.load(x), one = b.constant(kF32, 1);
  EXPECT_EQ(b.load(x), first);
  EXPECT_EQ(b.cast(kF32, first), first);
  EXPECT_EQ(b.binary(NestOp::kAdd, first, one), b.binary(NestOp::kAdd, first, b.constant(kF32, 1)));
  b.store(y, first);
  EXPECT_NE(b.load(x), first);
  EXPECT_EQ(b.constant(kF32, 1), one);
}

TEST(NestAnalysis, FindsPassesAndKeepsOnlyWhatIsExpensive) {
  LoopNest nest = softmax();
  NestAnalysis a(nest);
  EXPECT_EQ(a.passes(), 3);
  EXPECT_EQ(a.buffered(), std::vector<NodeId>{4});  // exp is kept, load and cast are not
  EXPECT_FALSE(a.varies_over_rows(2));
  int64_t extents[] = {10, 100};
  WorkShape w = a.work(extents);
  EXPECT_EQ(w.items[0], 10);
  EXPECT_EQ(w.scratch_bytes, 4 * 112);
}

}  // namespace
}  // namespace neuron::testing
