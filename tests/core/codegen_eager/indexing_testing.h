// SPDX-License-Identifier: Apache-2.0
//
// IndexingTest: records of indexed reads and writes, and what the tests of these families share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/codegen_eager/lowering_testing.h"

namespace neuron::test {

// Where an index read gets each element of its result: see lower/indexing_table.h.
struct IndexWords {
  int64_t first = 0, rank = 1, mask = 1;
};

class IndexingTest : public LoweringTest {
 protected:
  // Integers in [low, high).
  Tensor indices(const Sizes& sizes, int64_t low, int64_t high, DType dtype = DType::kInt64) {
    std::uniform_int_distribution<int64_t> uniform(low, high - 1);
    Tensor t = s.empty(sizes, dtype);
    for (int64_t i = 0; i < t.numel(); ++i) set(t, i, static_cast<double>(uniform(random_)));
    return t;
  }

  // A tensor of whole numbers, exact in every dtype.
  Tensor whole(const Sizes& sizes, DType dtype, int64_t low = -8, int64_t high = 9) {
    if (dtype == DType::kUInt8 || dtype == DType::kBool) low = 0;
    return indices(sizes, low, high, dtype);
  }

  // The same tensor with its dims in another order in memory.
  Tensor strided(const Sizes& sizes, DType dtype) {
    Sizes reversed(sizes.rbegin(), sizes.rend());
    Tensor t = whole(reversed, dtype);
    for (size_t d = 0; d < sizes.size() / 2; ++d) t = t.transpose(d, sizes.size() - 1 - d);
    return t;
  }

  static AttributeWriter words(const std::vector<int64_t>& structural) {
    AttributeWriter a;
    for (size_t i = 0; i < kIndexingWords; ++i) {
      a.structural(i < structural.size() ? structural[i] : 0);
    }
    return a;
  }

  void read(LoweredOp op, const std::vector<Tensor>& inputs, const Tensor& out, IndexWords w) {
    s.record(op, inputs, {out}, words({w.first, w.rank, w.mask}));
  }

  void write(LoweredOp op, const std::vector<Tensor>& inputs, const Tensor& out, IndexWords w) {
    s.record(op, inputs, {out}, words({w.first, w.rank, w.mask}));
  }

  void write_scalar(LoweredOp op, const std::vector<Tensor>& inputs, double value,
                    const Tensor& out, IndexWords w) {
    AttributeWriter a = words({w.first, w.rank, w.mask, 1});
    if (is_floating(out.dtype)) {
      a.value(value);
    } else {
      a.value(static_cast<int64_t>(value));
    }
    s.record(op, inputs, {out}, a);
  }

  void embedding_backward(const Tensor& grad, const Tensor& index, int64_t padding,
                          const Tensor& out) {
    AttributeWriter a = words({0, static_cast<int64_t>(index.sizes.size()), 1});
    a.value(padding);
    s.record(LoweredOp::kEmbeddingBackward, {grad, index}, {out}, a);
  }

  // Element of a tensor by its position.
  static int64_t linear(const Sizes& sizes, const Sizes& at) {
    int64_t i = 0;
    for (size_t d = 0; d < sizes.size(); ++d) i = i * sizes[d] + at[d];
    return i;
  }

  static std::vector<double> values(const Tensor& t) {
    std::vector<double> v;
    for (int64_t i = 0; i < t.numel(); ++i) v.push_back(get(t, i));
    return v;
  }

  // Runs what is recorded; the one error must name the operation.
  void expect_out_of_range(const char* op, const Tensor& result) {
    const std::vector<std::string> errors = run_window(s.window(), EagerMode::kStrict, true);
    ASSERT_EQ(errors.size(), 1u) << op;
    EXPECT_NE(errors[0].find("index out of range"), std::string::npos) << errors[0];
    EXPECT_NE(errors[0].find(op), std::string::npos) << errors[0];
    EXPECT_TRUE(result.storage->poisoned()) << op;
  }
};

}  // namespace neuron::test
