// SPDX-License-Identifier: Apache-2.0
//
// Writes at computed positions against models that go through the source element by element.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/codegen_eager/indexing_testing.h"
#include "neuron/eager/executor.h"

namespace neuron {
namespace {

using test::IndexingTest;
using test::IndexWords;
using test::Sizes;
using test::Tensor;

using Step = std::function<double(double old, double value)>;

double replace(double, double value) { return value; }
double add(double old, double value) { return old + value; }
double multiply(double old, double value) { return old * value; }
double larger(double old, double value) { return std::max(old, value); }
double smaller(double old, double value) { return std::min(old, value); }

const DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64,
                         DType::kInt64,   DType::kInt32,    DType::kInt8,    DType::kUInt8};

class IndexWriteTest : public IndexingTest {
 protected:
  // `expected` with every element of a source of shape `sizes` taken up at target(position).
  void model(std::vector<double>* expected, const Sizes& result, const Sizes& sizes,
             const std::function<Sizes(const Sizes&)>& target,
             const std::function<double(const Sizes&)>& value, const Step& step, DType dtype) {
    Tensor shape;
    shape.sizes = sizes;
    const Tensor cell = s.empty({1}, dtype);
    for (int64_t i = 0; i < shape.numel(); ++i) {
      const Sizes at = test::position(shape, i);
      double& old = (*expected)[static_cast<size_t>(linear(result, target(at)))];
      // Through memory: each step rounds, integers wrap.
      test::set(cell, 0,
                dtype == DType::kUInt8 || dtype == DType::kInt8
                    ? static_cast<double>(static_cast<int64_t>(step(old, value(at))) & 255)
                    : step(old, value(at)));
      old = test::get(cell, 0);
    }
  }

  static int64_t at(const Tensor& index, const Sizes& position) {
    return static_cast<int64_t>(test::get(index, linear(index.sizes, position)));
  }

  void expect_values(const Tensor& out, const std::vector<double>& expected) {
    run();
    for (int64_t i = 0; i < out.numel(); ++i) {
      ASSERT_EQ(test::get(out, i), expected[static_cast<size_t>(i)])
          << "element " << i << " of dtype " << name(out.dtype);
    }
  }
};

TEST_F(IndexWriteTest, EmbeddingBackwardAddsRowsInOrder) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
    for (int64_t width : {1, 5, 64, 200}) {
      for (int64_t padding : {-1, 2}) {
        const Tensor grad = random({4, 7, width}, dtype, -3, 3);
        const Tensor index = indices({4, 7}, 0, 6, padding < 0 ? DType::kInt64 : DType::kInt32);
        const Tensor out = s.empty({6, width}, dtype);
        std::vector<double> expected(static_cast<size_t>(out.numel()), 0);
        for (int64_t n = 0; n < 28; ++n) {
          const auto row = static_cast<int64_t>(test::get(index, n));
          if (row == padding) continue;
          for (int64_t k = 0; k < width; ++k) {
            double& cell = expected[static_cast<size_t>(row * width + k)];
            cell += test::get(grad, n * width + k);
            if (dtype == DType::kFloat32) cell = static_cast<float>(cell);
            if (dtype == DType::kBFloat16)
              cell = bf16_to_float(float_to_bf16(static_cast<float>(cell)));
            if (dtype == DType::kFloat16)
              cell = f16_to_float(float_to_f16(static_cast<float>(cell)));
          }
        }
        embedding_backward(grad, index, padding, out);
        expect_values(out, expected);
      }
    }
  }
}

TEST_F(IndexWriteTest, IndexAddCopyAndFillAlongEveryDim) {
  struct {
    LoweredOp op;
    Step step;
  } const kOps[] = {{LoweredOp::kIndexAdd, add}, {LoweredOp::kIndexCopy, replace}};
  for (DType dtype : kDTypes) {
    for (bool transposed : {false, true}) {
      for (size_t dim = 0; dim < 3; ++dim) {
        const IndexWords w{static_cast<int64_t>(dim), 1, int64_t{1} << dim};
        const Sizes shape{5, 6, 20};
        Sizes sizes = shape;
        sizes[dim] = 23;
        const Tensor index = indices({23}, 0, shape[dim]);
        const auto target = [&](Sizes p) {
          p[dim] = at(index, {p[dim]});
          return p;
        };
        for (const auto& c : kOps) {
          const Tensor self = transposed ? strided(shape, dtype) : whole(shape, dtype);
          const Tensor source = transposed ? strided(sizes, dtype) : whole(sizes, dtype);
          const Tensor out = s.empty(shape, dtype);
          std::vector<double> expected = values(self);
          model(
              &expected, shape, sizes, target,
              [&](const Sizes& p) { return test::get(source, linear(sizes, p)); }, c.step, dtype);
          write(c.op, {self, index, source}, out, w);
          expect_values(out, expected);
        }
        const Tensor self = transposed ? strided(shape, dtype) : whole(shape, dtype);
        std::vector<double> expected = values(self);
        model(
            &expected, shape, sizes, target, [](const Sizes&) { return 3; }, replace, dtype);
        write_scalar(LoweredOp::kIndexFill, {self, index}, 3, self, w);  // in place
        expect_values(self, expected);
      }
    }
  }
}

TEST_F(IndexWriteTest, ScattersAlongEveryDim) {
  struct {
    LoweredOp op;
    Step step;
    bool reset;
  } const kOps[] = {
      {LoweredOp::kScatter, replace, false},        {LoweredOp::kScatterAdd, add, false},
      {LoweredOp::kScatterMul, multiply, false},    {LoweredOp::kScatterMax, larger, false},
      {LoweredOp::kScatterMin, smaller, false},     {LoweredOp::kScatterAddOnly, add, true},
      {LoweredOp::kScatterMulOnly, multiply, true}, {LoweredOp::kScatterMaxOnly, larger, true},
      {LoweredOp::kScatterMinOnly, smaller, true}};
  for (DType dtype : kDTypes) {
    for (bool in_place : {false, true}) {
      for (size_t dim = 0; dim < 2; ++dim) {
        const IndexWords w{static_cast<int64_t>(dim), 0, int64_t{1} << dim};
        const Sizes shape{21, 19}, sizes{dim == 0 ? 40 : 17, dim == 0 ? 17 : 40};
        const Tensor index = indices(sizes, 0, shape[dim]);
        for (const auto& c : kOps) {
          const Tensor self = in_place ? strided(shape, dtype) : whole(shape, dtype);
          const Tensor source = whole({41, 42}, dtype, -2, 3);
          const Tensor out = in_place ? self : s.empty(shape, dtype);
          std::vector<double> expected = values(self);
          const auto target = [&](Sizes p) {
            p[dim] = at(index, p);
            return p;
          };
          std::vector<bool> seen(expected.size(), !c.reset);
          for (int64_t i = 0; i < index.numel(); ++i) {
            const Sizes p = test::position(index, i);
            const auto cell = static_cast<size_t>(linear(shape, target(p)));
            if (seen[cell]) continue;
            seen[cell] = true;
            // The first value is taken as it is: nothing comes before it.
            expected[cell] = c.op == LoweredOp::kScatterAddOnly   ? 0
                             : c.op == LoweredOp::kScatterMulOnly ? 1
                             : c.op == LoweredOp::kScatterMaxOnly ? -1e300
                                                                  : 1e300;
          }
          model(
              &expected, shape, sizes, target,
              [&](const Sizes& p) { return test::get(source, linear(source.sizes, p)); }, c.step,
              dtype);
          write(c.op, {self, index, source}, out, w);
          expect_values(out, expected);
        }
      }
    }
  }
}

TEST_F(IndexWriteTest, ScatterOfAHostScalar) {
  const Tensor self = whole({4, 6}, DType::kFloat32), index = indices({4, 2}, 0, 6);
  const Tensor out = s.empty({4, 6});
  std::vector<double> expected = values(self);
  for (int64_t i = 0; i < 8; ++i) {
    expected[static_cast<size_t>(i / 2 * 6 + static_cast<int64_t>(test::get(index, i)))] = 0.1f;
  }
  write_scalar(LoweredOp::kScatter, {self, index}, 0.1, out, {1, 0, 2});
  expect_values(out, expected);
}

TEST_F(IndexWriteTest, IndexPutBroadcastsWrapsAndKeepsOrder) {
  const auto wrap = [](int64_t i, int64_t size) { return i < 0 ? i + size : i; };
  for (DType dtype : kDTypes) {
    for (bool accumulate : {false, true}) {
      const Sizes shape{5, 7, 6, 9};
      const Tensor self = whole(shape, dtype, -2, 3);
      const Tensor a = indices({8, 1}, -7, 7), b = indices({11}, -6, 6, DType::kInt32);
      const Tensor value = whole({8, 1, 9}, dtype, -2, 3);
      std::vector<double> expected = values(self);
      model(
          &expected, shape, {5, 8, 11, 9},
          [&](const Sizes& p) {
            return Sizes{p[0], wrap(at(a, {p[1], 0}), 7), wrap(at(b, {p[2]}), 6), p[3]};
          },
          [&](const Sizes& p) { return test::get(value, p[1] * 9 + p[3]); },
          accumulate ? add : replace, dtype);
      write(accumulate ? LoweredOp::kIndexPutAdd : LoweredOp::kIndexPut, {self, a, b, value}, self,
            {1, 2, 0b0110});
      expect_values(self, expected);
    }
  }
}

TEST_F(IndexWriteTest, IndexPutOfEveryDimIsOneOrderedWalk) {
  for (bool accumulate : {false, true}) {
    const Tensor self = random({50}, DType::kFloat32, -3, 3), index = indices({1000}, -50, 50);
    const Tensor value = random({1000}, DType::kFloat32, -3, 3);
    const Tensor out = s.empty({50});
    std::vector<double> expected = values(self);
    model(
        &expected, {50}, {1000},
        [&](const Sizes& p) {
          const int64_t i = at(index, p);
          return Sizes{i < 0 ? i + 50 : i};
        },
        [&](const Sizes& p) { return test::get(value, p[0]); }, accumulate ? add : replace,
        DType::kFloat32);
    write(accumulate ? LoweredOp::kIndexPutAdd : LoweredOp::kIndexPut, {self, index, value}, out,
          {0, 1, 1});
    expect_values(out, expected);
  }
}

TEST_F(IndexWriteTest, AnIndexThatIsExpandedWritesRepeatedly) {
  const Tensor self = whole({4, 3}, DType::kFloat32);
  const Tensor one = indices({1}, 2, 3), index = one.expand(0, 5);
  const Tensor source = whole({5, 3}, DType::kFloat32), out = s.empty({4, 3});
  std::vector<double> expected = values(self);
  for (int64_t i = 0; i < 15; ++i) expected[static_cast<size_t>(6 + i % 3)] += test::get(source, i);
  write(LoweredOp::kIndexAdd, {self, index, source}, out, {0, 1, 1});
  expect_values(out, expected);
}

TEST_F(IndexWriteTest, IndicesOutOfRangeAreErrorsOfTheOperation) {
  struct {
    LoweredOp op;
    IndexWords words;
    Sizes index, source;
    std::vector<int64_t> bad;
  } const kCases[] = {
      {LoweredOp::kIndexAdd, {0, 1, 1}, {3}, {3, 6}, {4, -1, INT64_MIN}},
      {LoweredOp::kIndexCopy, {1, 1, 2}, {3}, {4, 3}, {6, -1}},
      {LoweredOp::kIndexPut, {0, 1, 1}, {3}, {3, 6}, {4, -5, INT64_MAX}},
      {LoweredOp::kIndexPutAdd, {0, 1, 1}, {3}, {3, 6}, {4, -5}},
      {LoweredOp::kScatterAdd, {1, 0, 2}, {4, 3}, {4, 3}, {6, -1}},
      {LoweredOp::kScatterMaxOnly, {0, 0, 1}, {3, 6}, {3, 6}, {4, -1}},
  };
  for (const auto& c : kCases) {
    for (int64_t bad : c.bad) {
      const Tensor self = whole({4, 6}, DType::kFloat32), index = indices(c.index, 0, 3);
      const Tensor source = whole(c.source, DType::kFloat32), out = s.empty({4, 6});
      index.data<int64_t>()[0] = bad;
      write(c.op, {self, index, source}, out, c.words);
      const auto errors = test::run_window(s.window(), EagerMode::kStrict, true);
      ASSERT_EQ(errors.size(), 1u);
      EXPECT_NE(errors[0].find("index out of range"), std::string::npos) << errors[0];
      EXPECT_NE(errors[0].find(op_info(op_id(c.op)).name), std::string::npos) << errors[0];
      EXPECT_TRUE(out.storage->poisoned());
    }
  }
}

// Nothing outside the result changes, whatever the indices are.
TEST_F(IndexWriteTest, IndicesOutOfRangeTouchNoOtherMemory) {
  for (LoweredOp op : {LoweredOp::kScatterAdd, LoweredOp::kScatterMaxOnly, LoweredOp::kScatter}) {
    for (int64_t dim : {0, 1}) {
      const Tensor around = whole({40, 30}, DType::kFloat32);
      const Tensor self = around.slice(0, 10, 20).slice(1, 5, 20);
      const Tensor index = indices({20, 20}, -30, 50), source = whole({20, 20}, DType::kFloat32);
      const std::vector<double> before = values(around);
      write(op, {self, index, source}, self, {dim, 0, int64_t{1} << dim});
      test::run_window(s.window(), EagerMode::kStrict, true);
      for (int64_t i = 0; i < around.numel(); ++i) {
        const int64_t row = i / 30 - 10, column = i % 30 - 5;
        if (row >= 0 && row < 20 && column >= 0 && column < 20) continue;
        ASSERT_EQ(test::get(around, i), before[static_cast<size_t>(i)]);
      }
    }
  }
}

// The first part of an `Only` cannot fail and may share a kernel with what makes its index.
TEST_F(IndexWriteTest, AnIndexThatIsComputedInTheWindow) {
  EagerExecutor executor(test::kernels());
  const Tensor self = whole({9, 40}, DType::kFloat32),
               narrow = indices({30, 40}, 0, 9, DType::kInt32);
  const Tensor source = whole({30, 40}, DType::kFloat32);
  std::vector<std::vector<double>> results;
  for (int repeat = 0; repeat < 4; ++repeat) {
    const Tensor index = s.empty({30, 40}, DType::kInt64), out = s.empty({9, 40});
    s.pointwise(LoweredOp::kCopy, {narrow}, index, {}, DType::kInt64);
    write(LoweredOp::kScatterMaxOnly, {self, index, source}, out, {0, 0, 1});
    test::run_window(s.window(), executor, repeat == 0 ? EagerMode::kStrict : EagerMode::kAdaptive);
    test::kernels().wait_idle();
    results.push_back(values(out));
    for (double v : values(index)) results.back().push_back(v);
  }
  for (const auto& r : results) EXPECT_EQ(r, results[0]);
}

// Writes in windows with producers, readers before and after, and views.
TEST_F(IndexWriteTest, FusedWindowsGiveTheBitsOfSingleOperations) {
  EagerExecutor executor(test::kernels());
  const Tensor x = random({12, 40}, DType::kFloat32, -3, 3);
  const Tensor index = indices({12}, 0, 7), grad = random({12, 40}, DType::kFloat32, -1, 1);
  std::vector<std::vector<double>> results;
  for (int repeat = 0; repeat < 4; ++repeat) {
    const EagerMode mode = repeat == 0 ? EagerMode::kStrict : EagerMode::kAdaptive;
    const Tensor table = s.empty({7, 40}), before = s.empty({7, 40}), after = s.empty({7, 40});
    s.fill(table, 0.5);
    s.pointwise(LoweredOp::kExp, {table}, before);
    {
      const Tensor scaled = s.empty({12, 40}), twice = s.empty({12, 40});
      s.pointwise(LoweredOp::kTanh, {grad}, scaled);
      s.pointwise(LoweredOp::kMul, {scaled, x}, twice);
      write(LoweredOp::kIndexAdd, {table, index, twice}, table, {0, 1, 1});
    }
    s.pointwise(LoweredOp::kAdd, {table, before}, after);
    s.fill(table.slice(0, 0, 2), 9);
    test::run_window(s.window(), executor, mode);
    test::kernels().wait_idle();
    std::vector<double> v = values(after);
    for (double d : values(table)) v.push_back(d);
    results.push_back(v);
  }
  for (const auto& r : results) EXPECT_EQ(r, results[0]);
}

}  // namespace
}  // namespace neuron
