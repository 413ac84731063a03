// SPDX-License-Identifier: Apache-2.0
//
// Window analysis: what the key holds and what it does not, dependencies, temporaries, canonical
// form.
#include "neuron/eager/analysis.h"

#include <gtest/gtest.h>

#include "core/eager_testing.h"

namespace neuron {
namespace {

using test::Session;
using test::Sizes;
using test::Tensor;

// The key of `body` recorded in a session of its own.
std::vector<uint64_t> key_of(const std::function<void(Session&)>& body) {
  Session s;
  body(s);
  return s.form().key;
}

void bias_and_scale(Session& s, const Sizes& sizes, double scale) {
  const Tensor x = s.empty(sizes), bias = s.empty({sizes.back()});
  const Tensor y = s.empty(sizes), z = s.empty(sizes);
  s.pointwise(LoweredOp::kAdd, {x, bias}, y);
  s.with_scalar(LoweredOp::kMul, y, scale, z);
}

TEST(WindowKeyTest, SizesAndScalarsAreNoPartOfIt) {
  const auto key = key_of([](Session& s) { bias_and_scale(s, {8, 16}, 0.5); });
  EXPECT_EQ(key_of([](Session& s) { bias_and_scale(s, {3, 20}, 7.0); }), key);
}

TEST(WindowKeyTest, ThePatternOfSizesIs) {
  const auto key = key_of([](Session& s) { bias_and_scale(s, {8, 16}, 0.5); });
  EXPECT_NE(key_of([](Session& s) { bias_and_scale(s, {16, 16}, 0.5); }), key);
  EXPECT_NE(key_of([](Session& s) { bias_and_scale(s, {1, 16}, 0.5); }), key);
}

TEST(WindowKeyTest, CollapsedDimsAreNoPartOfIt) {
  const auto copy = [](const Sizes& sizes) {
    return [sizes](Session& s) { s.pointwise(LoweredOp::kNeg, {s.empty(sizes)}, s.empty(sizes)); };
  };
  EXPECT_EQ(key_of(copy({8, 4, 2})), key_of(copy({64})));
}

TEST(WindowKeyTest, DtypesLayoutsAndWiringAre) {
  const auto unary = [](DType dtype, bool transposed, bool same) {
    return [=](Session& s) {
      const Tensor x = s.empty({8, 8}, dtype), other = s.empty({8, 8}, dtype);
      s.pointwise(LoweredOp::kAdd, {transposed ? x.transpose(0, 1) : x, same ? x : other},
                  s.empty({8, 8}, dtype));
    };
  };
  const auto key = key_of(unary(DType::kFloat32, false, false));
  EXPECT_NE(key_of(unary(DType::kBFloat16, false, false)), key);
  EXPECT_NE(key_of(unary(DType::kFloat32, true, false)), key);
  EXPECT_NE(key_of(unary(DType::kFloat32, false, true)), key);
}

TEST(WindowKeyTest, StructuralAttributesAre) {
  const auto sum = [](size_t dim) {
    return [dim](Session& s) {
      const Tensor x = s.empty({8, 8});
      s.reduce(LoweredOp::kSum, x, {dim}, false, {s.empty({8})});
    };
  };
  EXPECT_NE(key_of(sum(0)), key_of(sum(1)));
}

// The padded dim comes first in the record in both, but not in memory.
TEST(WindowKeyTest, TheOrderOfDimsWhosePositionsCountIs) {
  const auto pad = [](bool transposed) {
    return [=](Session& s) {
      AttributeWriter a;
      for (int64_t word : {0, 1, 0, 0}) a.structural(word);
      a.value(0.0);
      a.value(int64_t{1});
      Tensor from = s.empty(transposed ? Sizes{5, 3} : Sizes{3, 5});
      Tensor to = s.empty(transposed ? Sizes{5, 4} : Sizes{4, 5});
      if (transposed) from = from.transpose(0, 1), to = to.transpose(0, 1);
      s.record(LoweredOp::kPad, {from}, {to}, a);
    };
  };
  EXPECT_NE(key_of(pad(false)), key_of(pad(true)));
}

class AnalysisTest : public ::testing::Test {
 protected:
  std::vector<std::string> edges() {
    static constexpr const char* kLinks[] = {"forward", "aligned", "order"};
    std::vector<std::string> result;
    const WindowForm& form = s.form();
    for (size_t n = 0; n < form.nodes.size(); ++n) {
      const FormNode& node = form.nodes[n];
      for (int e = node.first_edge; e < node.first_edge + node.edge_count; ++e) {
        const Edge& edge = form.edges[static_cast<size_t>(e)];
        result.push_back(std::to_string(edge.from) + " " + kLinks[static_cast<size_t>(edge.link)] +
                         " " + std::to_string(n));
      }
    }
    return result;
  }
  void negate(const Tensor& from, const Tensor& to) { s.pointwise(LoweredOp::kNeg, {from}, to); }

  using Edges = std::vector<std::string>;
  Session s;
};

TEST_F(AnalysisTest, AnExactReadIsForwarded) {
  const Tensor x = s.empty({4, 6}), y = s.empty({4, 6}), z = s.empty({24});
  negate(x, y);
  negate(y.reshape({24}), z);
  EXPECT_EQ(edges(), Edges{"0 forward 1"});
}

TEST_F(AnalysisTest, APartialReadIsOrdered) {
  const Tensor x = s.empty({4, 6}), y = s.empty({4, 6}), z = s.empty({2, 6});
  negate(x, y);
  negate(y.slice(0, 1, 2), z);
  EXPECT_EQ(edges(), Edges{"0 order 1"});
}

TEST_F(AnalysisTest, DisjointSlicesAreIndependent) {
  const Tensor x = s.empty({2, 6}), y = s.empty({4, 6});
  negate(x, y.slice(0, 0, 2));
  negate(x, y.slice(0, 2, 2));
  EXPECT_EQ(edges(), Edges{});
}

TEST_F(AnalysisTest, OverwritesFollowReadsAndWrites) {
  const Tensor x = s.empty({6}), y = s.empty({6}), z = s.empty({6});
  negate(x, y);
  negate(y, z);
  negate(z, y);
  EXPECT_EQ(edges(), (Edges{"0 forward 1", "1 forward 2", "1 aligned 2", "0 aligned 2"}));
}

// Slices of the same rows: what is read or written at computed places may be anywhere.
TEST_F(AnalysisTest, ComputedPlacesOverlapTheirWholeTensor) {
  const Tensor x = s.empty({4, 6}), index = s.empty({1}, DType::kInt64), row = s.empty({1, 6});
  const Tensor y = s.empty({4, 6}), z = s.empty({4, 6});
  AttributeWriter a;
  for (int64_t word : {0, 1, 1, 0}) a.structural(word);
  negate(x, y);
  s.record(LoweredOp::kEmbedding, {y, index}, {row}, a);    // reads all of y
  s.record(LoweredOp::kIndexAdd, {y, index, row}, {y}, a);  // writes some of it
  negate(y, z);
  EXPECT_EQ(edges(), (Edges{"0 order 1", "1 forward 2", "1 order 2", "0 order 2", "2 order 3",
                            "0 forward 3"}));
}

TEST_F(AnalysisTest, ReadsWithNegativeStridesAreNotForwarded) {
  const Tensor x = s.empty({6}), y = s.empty({6}), z = s.empty({6});
  Tensor flipped = y;
  flipped.offset = 5;
  flipped.strides = {-1};
  negate(x, y);
  negate(flipped, z);
  negate(x.slice(0, 0, 1), y.slice(0, 0, 1));
  EXPECT_EQ(edges(), (Edges{"0 order 1", "1 order 2", "0 order 2"}));
}

TEST_F(AnalysisTest, ANewWriteHidesTheOldOne) {
  const Tensor x = s.empty({6}), y = s.empty({6}), z = s.empty({6});
  negate(x, y);
  s.fill(y, 0);
  negate(y, z);
  EXPECT_EQ(edges(), (Edges{"0 aligned 1", "1 forward 2"}));
}

TEST_F(AnalysisTest, HostCallsKeepTheirOrderAndTouchWholeBlocks) {
  const Tensor x = s.empty({6}), y = s.empty({6});
  negate(x, y.slice(0, 0, 2));
  s.host([] {}, {y}, {});
  s.host([] {}, {}, {});
  EXPECT_EQ(edges(), (Edges{"0 order 1", "1 order 2"}));
}

TEST_F(AnalysisTest, OnlyWhatNobodyCanSeeIsATemporary) {
  const Tensor x = s.empty({6});
  Tensor dead = s.empty({6}), live = s.empty({6}), host = s.empty({6}), read_first = s.empty({6});
  negate(x, dead);
  negate(x, live);
  negate(x, host);
  s.host([] {}, {host}, {});
  s.pointwise(LoweredOp::kAdd, {read_first, x}, read_first);
  dead = host = read_first = Tensor();
  std::vector<bool> temporary;
  for (const FormNode& n : s.form().nodes) {
    if (!n.host) temporary.push_back(n.temporary[n.canonical.operand_count - 1u]);
  }
  EXPECT_EQ(temporary, (std::vector<bool>{true, false, false, false}));
}

TEST_F(AnalysisTest, ReusedMemoryOfATemporaryIsNoDependency) {
  const Tensor x = s.empty({1024});
  Tensor dead = s.empty({1024});
  const std::byte* address = dead.storage->address();
  negate(x, dead);
  dead = Tensor();
  const Tensor y = s.empty({1024});
  ASSERT_EQ(y.storage->address(), address);
  negate(x, y);
  EXPECT_EQ(edges(), Edges{});
}

TEST_F(AnalysisTest, ReusedMemoryThatAHostCallReadsIsOne) {
  const Tensor x = s.empty({1024});
  Tensor dead = s.empty({1024});
  negate(x, dead);
  s.host([] {}, {dead}, {});
  dead = Tensor();
  const Tensor y = s.empty({1024});
  negate(x, y);
  EXPECT_EQ(edges(), (Edges{"0 order 1", "1 order 2", "0 aligned 2"}));
}

TEST_F(AnalysisTest, TheWalkOfAReductionFollowsTheStrides) {
  const Tensor x = s.empty({8, 16});
  s.reduce(LoweredOp::kSum, x, {1}, false, {s.empty({8})});
  s.reduce(LoweredOp::kSum, x, {0}, false, {s.empty({16})});
  s.reduce(LoweredOp::kSum, x.transpose(0, 1), {0}, false, {s.empty({8})});
  s.reduce(LoweredOp::kSum, x.transpose(0, 1), {0, 1}, false, {s.empty({})});
  const WindowForm& form = s.form();
  EXPECT_EQ(form.nodes[0].canonical.walk, Walk::kRow);
  EXPECT_EQ(form.nodes[1].canonical.walk, Walk::kColumn);
  EXPECT_EQ(form.nodes[2].canonical.walk, Walk::kRow);
  EXPECT_EQ(form.nodes[3].canonical.rank(), 1);
}

}  // namespace
}  // namespace neuron
