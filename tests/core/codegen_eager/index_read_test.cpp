// SPDX-License-Identifier: Apache-2.0
//
// Reads at computed positions against models that walk elements one by one.
#include <gtest/gtest.h>

#include "core/codegen_eager/indexing_testing.h"
#include "neuron/eager/executor.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

using test::IndexingTest;
using test::IndexWords;
using test::Sizes;
using test::Tensor;

const DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64,
                         DType::kInt64,   DType::kInt32,    DType::kInt16,   DType::kInt8,
                         DType::kUInt8,   DType::kBool};

class IndexReadTest : public IndexingTest {
 protected:
  // result[at] = self[source(at)]
  void expect_read(const Tensor& self, const Tensor& out,
                   const std::function<Sizes(const Sizes&)>& source) {
    run();
    for (int64_t i = 0; i < out.numel(); ++i) {
      const Sizes at = test::position(out, i);
      ASSERT_EQ(test::get(out, i), test::get(self, linear(self.sizes, source(at))))
          << "element " << i << " of dtype " << name(out.dtype);
    }
  }
  static int64_t at(const Tensor& index, const Sizes& position) {
    return static_cast<int64_t>(test::get(index, linear(index.sizes, position)));
  }
};

TEST_F(IndexReadTest, EmbeddingTakesRows) {
  for (DType dtype : kDTypes) {
    for (DType index_dtype : {DType::kInt64, DType::kInt32}) {
      const Tensor weight = whole({13, 37}, dtype);
      const Tensor index = indices({3, 5}, 0, 13, index_dtype);
      const Tensor out = s.empty({3, 5, 37}, dtype);
      read(LoweredOp::kEmbedding, {weight, index}, out, {0, 2, 1});
      expect_read(weight, out, [&](const Sizes& p) {
        return Sizes{at(index, {p[0], p[1]}), p[2]};
      });
    }
  }
}

TEST_F(IndexReadTest, EmbeddingOfTransposedOperands) {
  const Tensor weight = strided({13, 18}, DType::kFloat32);
  const Tensor index = indices({4, 6}, 0, 13).transpose(0, 1);
  const Tensor out = s.empty({6, 4, 18});
  read(LoweredOp::kEmbedding, {weight, index}, out, {0, 2, 1});
  expect_read(weight, out, [&](const Sizes& p) { return Sizes{at(index, {p[0], p[1]}), p[2]}; });
}

TEST_F(IndexReadTest, IndexSelectAlongEveryDim) {
  for (DType dtype : kDTypes) {
    for (bool transposed : {false, true}) {
      const Tensor self = transposed ? strided({5, 7, 20}, dtype) : whole({5, 7, 20}, dtype);
      for (size_t dim = 0; dim < 3; ++dim) {
        const Tensor index = indices({9}, 0, self.sizes[dim]);
        Sizes sizes = self.sizes;
        sizes[dim] = 9;
        const Tensor out = s.empty(sizes, dtype);
        read(LoweredOp::kIndexSelect, {self, index}, out,
             {static_cast<int64_t>(dim), 1, int64_t{1} << dim});
        expect_read(self, out, [&](Sizes p) {
          p[dim] = at(index, {p[dim]});
          return p;
        });
      }
    }
  }
}

TEST_F(IndexReadTest, GatherAlongEveryDim) {
  for (DType dtype : kDTypes) {
    for (bool transposed : {false, true}) {
      const Tensor self = transposed ? strided({5, 7, 20}, dtype) : whole({5, 7, 20}, dtype);
      for (size_t dim = 0; dim < 3; ++dim) {
        Sizes sizes{4, 6, 18};
        sizes[dim] = 11;
        const Tensor index =
            indices(sizes, 0, self.sizes[dim], transposed ? DType::kInt32 : DType::kInt64);
        const Tensor out = s.empty(sizes, dtype);
        read(LoweredOp::kGather, {self, index}, out,
             {static_cast<int64_t>(dim), 0, int64_t{1} << dim});
        expect_read(self, out, [&](Sizes p) {
          p[dim] = at(index, p);
          return p;
        });
      }
    }
  }
}

TEST_F(IndexReadTest, IndexWithSeveralTensorsThatBroadcastAndWrap) {
  const auto wrap = [](int64_t i, int64_t size) { return i < 0 ? i + size : i; };
  for (DType dtype : kDTypes) {
    const Tensor self = strided({5, 7, 6, 9}, dtype);
    const Tensor a = indices({3, 1}, -7, 7), b = indices({4}, -6, 6, DType::kInt32);
    // Adjacent: self[:, a, b]
    const Tensor adjacent = s.empty({5, 3, 4, 9}, dtype);
    read(LoweredOp::kIndex, {self, a, b}, adjacent, {1, 2, 0b0110});
    expect_read(self, adjacent, [&](const Sizes& p) {
      return Sizes{p[0], wrap(at(a, {p[1], 0}), 7), wrap(at(b, {p[2]}), 6), p[3]};
    });
    // Apart: self[:, a, :, c] has the index space first.
    const Tensor c = indices({1, 2}, -9, 9);
    const Tensor apart = s.empty({3, 2, 5, 6}, dtype);
    read(LoweredOp::kIndex, {self, a, c}, apart, {0, 2, 0b1010});
    expect_read(self, apart, [&](const Sizes& p) {
      return Sizes{p[2], wrap(at(a, {p[0], 0}), 7), p[3], wrap(at(c, {0, p[1]}), 9)};
    });
  }
}

TEST_F(IndexReadTest, IndexWithATensorWithoutDims) {
  const Tensor self = whole({4, 6}, DType::kFloat32);
  Tensor index = indices({1}, -4, 4);
  index.sizes.clear();
  index.strides.clear();
  const Tensor out = s.empty({6});
  read(LoweredOp::kIndex, {self, index}, out, {0, 0, 1});
  expect_read(self, out, [&](const Sizes& p) {
    const int64_t i = at(index, {});
    return Sizes{i < 0 ? i + 4 : i, p[0]};
  });
}

TEST_F(IndexReadTest, TakeFromFlattenedSelf) {
  const Tensor self = whole({4, 6}, DType::kFloat32), flat = self.reshape({24});
  const Tensor index = indices({5, 7}, 0, 24), out = s.empty({5, 7});
  read(LoweredOp::kIndex, {flat, index}, out, {0, 2, 1});
  expect_read(flat, out, [&](const Sizes& p) { return Sizes{at(index, p)}; });
}

TEST_F(IndexReadTest, IndicesOutOfRangeAreErrorsOfTheOperation) {
  const Tensor self = whole({4, 6}, DType::kFloat32);
  struct {
    LoweredOp op;
    IndexWords words;
    Sizes index, result;
    std::vector<int64_t> bad;
  } const kCases[] = {
      {LoweredOp::kEmbedding, {0, 1, 1}, {3}, {3, 6}, {4, -1, int64_t{1} << 40}},
      {LoweredOp::kIndexSelect, {1, 1, 2}, {3}, {4, 3}, {6, -1, INT64_MIN}},
      {LoweredOp::kIndex, {0, 1, 1}, {3}, {3, 6}, {4, -5, INT64_MAX}},
      {LoweredOp::kGather, {1, 0, 2}, {4, 3}, {4, 3}, {6, -1}},
  };
  for (const auto& c : kCases) {
    for (int64_t bad : c.bad) {
      const Tensor index = indices(c.index, 0, 3), out = s.empty(c.result);
      index.data<int64_t>()[index.numel() - 1] = bad;
      read(c.op, {self, index}, out, c.words);
      expect_out_of_range(op_info(op_id(c.op)).name, out);
    }
  }
}

// The third run of a window is a fused one.
TEST_F(IndexReadTest, AnErrorPoisonsTheOperationAndItsConsumersOnly) {
  EagerExecutor executor(test::kernels());
  const Tensor weight = whole({4, 32}, DType::kFloat32), other = whole({3, 32}, DType::kFloat32);
  for (int repeat = 0; repeat < 4; ++repeat) {
    const Tensor index = indices({3}, 0, 4), rows = s.empty({3, 32}), scaled = s.empty({3, 32});
    const Tensor sum = s.empty({3, 32}), apart = s.empty({3, 32});
    const bool bad = repeat == 3;
    if (bad) index.data<int64_t>()[1] = 4;
    s.pointwise(LoweredOp::kNeg, {other}, apart);
    read(LoweredOp::kEmbedding, {weight, index}, rows, {0, 1, 1});
    s.with_scalar(LoweredOp::kMul, rows, 2, scaled);
    s.pointwise(LoweredOp::kAdd, {scaled, apart}, sum);
    const std::vector<std::string> errors =
        test::run_window(s.window(), executor, EagerMode::kAdaptive, bad);
    test::kernels().wait_idle();
    EXPECT_EQ(errors.size(), bad ? 1u : 0u);
    if (bad) {
      EXPECT_NE(errors[0].find("aten::embedding"), std::string::npos) << errors[0];
    }
    EXPECT_EQ(rows.storage->poisoned(), bad);
    EXPECT_EQ(scaled.storage->poisoned(), bad);
    EXPECT_EQ(sum.storage->poisoned(), bad);
    EXPECT_FALSE(apart.storage->poisoned());
    for (int64_t i = 0; i < apart.numel(); ++i) {
      ASSERT_EQ(test::get(apart, i), -test::get(other, i));
      const int64_t row = index.data<int64_t>()[i / 32];
      if (!bad) {
        ASSERT_EQ(test::get(sum, i),
                  2 * test::get(weight, row * 32 + i % 32) - test::get(other, i));
      }
    }
  }
}

TEST_F(IndexReadTest, WhatMayRaiseRunsThoughNothingReadsItsResult) {
  EagerExecutor executor(test::kernels());
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Tensor weight = whole({4, 8}, DType::kFloat32), index = indices({3}, 4, 5);
    {
      const Tensor unread = s.empty({3, 8});
      read(LoweredOp::kEmbedding, {weight, index}, unread, {0, 1, 1});
    }
    const Tensor negated = s.empty({4, 8});
    s.pointwise(LoweredOp::kNeg, {weight}, negated);
    const auto errors = test::run_window(s.window(), executor, EagerMode::kAdaptive, true);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_NE(errors[0].find("aten::embedding"), std::string::npos);
    EXPECT_FALSE(negated.storage->poisoned());
  }
}

}  // namespace
}  // namespace neuron
