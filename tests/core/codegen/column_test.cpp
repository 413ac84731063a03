// SPDX-License-Identifier: Apache-2.0
//
// Column reductions, rows in order (outer softmax, scatter), gather, and horizontal kernels.
#include "core/codegen/kernel_testing.h"

namespace neuron::testing {
namespace {

LoopNest column_sum(Schedule schedule) {
  NestBuilder b(schedule, 1, 1);
  int in = b.operand(kF32, {kUnit, kAny}), sum = b.operand(kF32, {kUnit, kZero});
  int square = b.operand(kF32, {kUnit, kZero}), where = b.operand(kI64, {kUnit, kZero});
  NodeId x = b.load(in);
  b.store(sum, b.reduce(NestOp::kReduceSum, x));
  b.store(square, b.binary(NestOp::kDiv, b.reduce(NestOp::kReduceSum, b.binary(NestOp::kMul, x, x)),
                           b.cast(kF32, b.extent(1))));
  b.store(where, b.reduce(NestOp::kArgMax, x));
  return b.finish();
}

TEST(Column, SeveralReductionsAtOnce) {
  TestKernel column(column_sum(Schedule::kColumn)), sequential(column_sum(Schedule::kSequential));
  for (auto [rows, columns] :
       {std::array<int64_t, 2>{1, 1}, {3, 70}, {130, 17}, {1000, 33}, {2, 1100}}) {
    std::vector<float> x = random_floats(rows * columns, 5), s(columns), q(columns), s2(columns),
                       q2(columns);
    std::vector<int64_t> w(columns), w2(columns);
    column.run(
        {argument(x, {1, columns}), argument(s, {1, 0}), argument(q, {1, 0}), argument(w, {1, 0})},
        {columns, rows});
    sequential.run({argument(x, {1, columns}), argument(s2, {1, 0}), argument(q2, {1, 0}),
                    argument(w2, {1, 0})},
                   {columns, rows});
    EXPECT_EQ(s, s2);
    EXPECT_EQ(q, q2);
    EXPECT_EQ(w, w2);
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0, square = 0;
      int64_t best = 0;
      for (int64_t r = 0; r < rows; ++r) {
        double v = x[r * columns + c];
        sum += v;
        square += v * v / double(rows);
        if (v > x[best * columns + c]) best = r;
      }
      ASSERT_NEAR(s[c], sum, 1e-3);
      ASSERT_NEAR(q[c], square, 1e-4);
      ASSERT_EQ(w[c], best);
    }
  }
}

// Such a sum is one number to what follows, though it is summed up in lanes.
TEST(Column, ASumOfWhatDoesNotVaryMeetsWhatDoes) {
  for (Schedule schedule : {Schedule::kColumn, Schedule::kSequential}) {
    NestBuilder b(schedule, 1, 1);
    int in = b.operand(kF32, {Stride::kUnit, Stride::kAny});
    int count = b.operand(kF32, {Stride::kUnit, Stride::kZero});
    int mean = b.operand(kF32, {Stride::kUnit, Stride::kZero});
    NodeId ones = b.reduce(NestOp::kReduceSum, b.scalar(b.scalar_slot(DType::kInt64)));
    NodeId rows = b.cast(kF32, ones);
    b.store(count, b.binary(NestOp::kSub, rows, b.scalar(b.scalar_slot(kF32))));
    b.store(mean, b.binary(NestOp::kDiv, b.reduce(NestOp::kReduceSum, b.load(in)), rows));
    TestKernel kernel(b.finish());
    const int64_t n = 200, columns = 37;
    std::vector<float> x(n * columns, 3.0f), c(columns), m(columns);
    kernel.run({argument(x, {1, columns}), argument(c, {1, 0}), argument(m, {1, 0})}, {columns, n},
               {1, std::bit_cast<uint32_t>(0.5f)});
    for (int64_t i = 0; i < columns; ++i) {
      EXPECT_EQ(c[i], 199.5f);
      EXPECT_EQ(m[i], 3.0f);
    }
  }
}

TEST(Sequential, SoftmaxOverAnOuterDim) {
  NestBuilder b(Schedule::kSequential, 2, 1);
  int in = b.operand(kF32, {kAny, kUnit, kAny}), out = b.operand(kF32, {kAny, kUnit, kAny});
  NodeId x = b.load(in);
  NodeId e = b.unary(NestOp::kExp, b.binary(NestOp::kSub, x, b.reduce(NestOp::kReduceMax, x)));
  b.store(out, b.binary(NestOp::kDiv, e, b.reduce(NestOp::kReduceSum, e)));
  TestKernel kernel(b.finish());
  int64_t p = 3, rows = 21, columns = 83;
  std::vector<float> v = random_floats(p * rows * columns, 6), y(v.size());
  kernel.run({argument(v, {rows * columns, 1, columns}), argument(y, {rows * columns, 1, columns})},
             {p, columns, rows});
  for (int64_t i = 0; i < p; ++i)
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += std::exp(v[(i * rows + r) * columns + c]);
      for (int64_t r = 0; r < rows; ++r)
        ASSERT_NEAR(y[(i * rows + r) * columns + c],
                    std::exp(v[(i * rows + r) * columns + c]) / sum, 1e-6);
    }
}

LoopNest embedding() {
  NestBuilder b(Schedule::kPointwise, 2, 0);
  int table = b.operand(kBF16, {kZero, kUnit}), index = b.operand(kI64, {kUnit, kZero});
  int out = b.operand(kBF16, {kAny, kUnit}), rows = b.scalar_slot(kI64);
  NodeId row = b.binary(NestOp::kWrapIndex, b.load(index), b.scalar(rows));
  b.store(out, b.load(table, row));
  return b.finish();
}

TEST(Gather, EmbeddingRowsAndIndexErrors) {
  TestKernel kernel(embedding());
  int64_t vocabulary = 11, width = 37, tokens = 9;
  std::vector<uint16_t> table = to_bf16(random_floats(vocabulary * width, 2)), out(tokens * width);
  std::vector<int64_t> index{0, 10, 3, -1, -11, 5, 5, 2, 7};
  auto run = [&] {
    kernel.run({argument(table, {0, 1}, width), argument(index, {1, 0}), argument(out, {width, 1})},
               {tokens, width}, {static_cast<uint64_t>(vocabulary)});
  };
  run();
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t k = 0; k < width; ++k)
      ASSERT_EQ(out[t * width + k], table[((index[t] + vocabulary) % vocabulary) * width + k]);
  for (int64_t bad : {11, -12}) {
    index[4] = bad;
    EXPECT_THROW(run(), Error);
  }
}

TEST(Gather, PerElementIndexAndMask) {
  NestBuilder b(Schedule::kPointwise, 2, 0);
  int data = b.operand(kF32, {kAny, kZero}), index = b.operand(kI64, {kAny, kUnit});
  int mask = b.operand(kBool, {kAny, kUnit}), out = b.operand(kF32, {kAny, kUnit});
  b.store(out, b.load(data, b.load(index), b.load(mask)));
  TestKernel kernel(b.finish());
  int64_t rows = 3, n = 29, m = 50;
  std::vector<float> x = random_floats(rows * m, 4), y(rows * n);
  std::vector<int64_t> i(rows * n);
  std::vector<uint8_t> on(rows * n);
  for (size_t k = 0; k < i.size(); ++k) {
    on[k] = k % 4 != 0;
    i[k] = on[k] ? static_cast<int64_t>(k * 17 % m) : int64_t{1} << 50;  // must not be read
  }
  kernel.run(
      {argument(x, {m, 0}, 1), argument(i, {n, 1}), argument(on, {n, 1}), argument(y, {n, 1})},
      {rows, n});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < n; ++k)
      ASSERT_EQ(y[r * n + k], on[r * n + k] ? x[r * m + i[r * n + k]] : 0);
}

TEST(Scatter, AddsInRowOrderAndRoundsEachTime) {
  NestBuilder b(Schedule::kSequential, 1, 1);
  int grad = b.operand(kBF16, {kUnit, kAny}), index = b.operand(kI64, {kZero, kUnit});
  int table = b.operand(kBF16, {kUnit, kZero}), rows = b.scalar_slot(kI64);
  NodeId row = b.binary(NestOp::kWrapIndex, b.load(index), b.scalar(rows));
  b.store_combine(NestOp::kStoreAdd, table, b.load(grad), row);
  TestKernel kernel(b.finish());
  int64_t vocabulary = 5, width = 70, tokens = 40;
  std::vector<uint16_t> g = to_bf16(random_floats(tokens * width, 2)), t(vocabulary * width),
                        expected(t.size());
  std::vector<int64_t> i(tokens);
  for (int64_t k = 0; k < tokens; ++k) i[k] = k * k % vocabulary;
  for (int64_t k = 0; k < tokens; ++k)
    for (int64_t c = 0; c < width; ++c) {
      uint16_t& place = expected[i[k] * width + c];
      place = float_to_bf16(bf16_to_float(place) + bf16_to_float(g[k * width + c]));
    }
  kernel.run({argument(g, {1, width}), argument(i, {0, 1}), argument(t, {1, 0}, width)},
             {width, tokens}, {static_cast<uint64_t>(vocabulary)});
  EXPECT_EQ(t, expected);
}

TEST(Scatter, CollidingElementsOfARowGoOneAfterTheOther) {
  NestBuilder b(Schedule::kRow, 1, 1);
  int value = b.operand(kF32, {kAny, kUnit}), index = b.operand(kI64, {kAny, kUnit});
  int sum = b.operand(kF32, {kAny, kZero}), high = b.operand(kF32, {kAny, kZero});
  int last = b.operand(kF32, {kAny, kZero}), size = b.scalar_slot(kI64);
  NodeId at = b.load(index);
  NodeId on = b.binary(NestOp::kLt, at, b.scalar(size));
  b.store_combine(NestOp::kStoreAdd, sum, b.load(value), at, on);
  b.store_combine(NestOp::kStoreMax, high, b.load(value), at, on);
  b.store(last, b.load(value), at, on);
  TestKernel kernel(b.finish());
  for (int64_t width : {1, 16, 23, 200}) {
    int64_t rows = 5, places = 3;
    std::vector<float> v = random_floats(rows * width, 8), s(rows * places), h(s.size(), -9);
    std::vector<float> l(s.size()), es = s, eh = h, el = l;
    std::vector<int64_t> i(v.size());
    for (size_t k = 0; k < i.size(); ++k) {
      // Some are masked: their place does not exist.
      i[k] = k % 7 == 3 ? int64_t{1} << 40 : static_cast<int64_t>(k * k % 3);
      if (k % 7 == 3) continue;
      size_t place = k / static_cast<size_t>(width) * 3 + static_cast<size_t>(i[k]);
      es[place] += v[k];
      eh[place] = std::max(eh[place], v[k]);
      el[place] = v[k];
    }
    kernel.run({argument(v, {width, 1}), argument(i, {width, 1}), argument(s, {places, 0}, 1),
                argument(h, {places, 0}, 1), argument(l, {places, 0}, 1)},
               {rows, width}, {static_cast<uint64_t>(places)});
    EXPECT_EQ(s, es);
    EXPECT_EQ(h, eh);
    EXPECT_EQ(l, el);
  }
}

TEST(Gather, CheckedIndicesDoNotWrap) {
  for (bool vector : {false, true}) {
    NestBuilder b(Schedule::kPointwise, 2, 0);
    int table = b.operand(kF32, {kZero, vector ? kZero : kUnit});
    int index = vector ? b.operand(kI64, {kAny, kUnit}) : b.operand(kI64, {kUnit, kZero});
    int out = b.operand(kF32, {kAny, kUnit}), size = b.scalar_slot(kI64);
    b.store(out, b.load(table, b.binary(NestOp::kCheckIndex, b.load(index), b.scalar(size))));
    TestKernel kernel(b.finish());
    int64_t n = 4, m = 21, places = 6;
    std::vector<float> t = random_floats(places * m, 2), y(n * m);
    std::vector<int64_t> i(vector ? n * m : n, 5);
    auto run = [&] {
      kernel.run({argument(t, {0, vector ? 0 : 1}, vector ? 1 : m),
                  argument(i, {vector ? m : 1, vector ? 1 : 0}), argument(y, {m, 1})},
                 {n, m}, {static_cast<uint64_t>(places)});
    };
    run();
    for (int64_t k = 0; k < n * m; ++k) ASSERT_EQ(y[k], vector ? t[5] : t[5 * m + k % m]);
    for (int64_t bad : {int64_t{6}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
      i.back() = bad;
      EXPECT_THROW(run(), Error);
    }
  }
}

TEST(Horizontal, OneBodyOverTensorsOfManySizes) {
  NestBuilder b(Schedule::kHorizontal, 1, 0);
  int p = b.operand(kF32, {kUnit}), g = b.operand(kF32, {kUnit}), step = b.operand(kF32, {kZero});
  int rate = b.scalar_slot(kF32);
  NodeId scaled = b.binary(NestOp::kMul, b.load(g), b.scalar(rate));
  b.store(p, b.binary(NestOp::kSub, b.load(p), b.binary(NestOp::kDiv, scaled, b.load(step))));
  TestKernel kernel(b.finish());
  std::vector<int64_t> sizes{5, 0, 16, 40000, 1, 16385};
  std::vector<std::vector<float>> params, grads, steps, expected;
  std::vector<uint64_t> scalars;
  for (size_t k = 0; k < sizes.size(); ++k) {
    params.push_back(random_floats(sizes[k], 40 + k));
    grads.push_back(random_floats(sizes[k], 60 + k));
    steps.push_back({1.0f + k});
    float lr = 0.5f * (1 + k);
    scalars.push_back(std::bit_cast<uint32_t>(lr));
    expected.push_back(params.back());
    for (int64_t i = 0; i < sizes[k]; ++i) expected[k][i] -= grads[k][i] * lr / steps[k][0];
  }
  std::vector<TestKernel::Argument> arguments;
  std::vector<void*> pointers;
  for (size_t k = 0; k < sizes.size(); ++k) {
    arguments.push_back(argument(params[k], {1}));
    pointers.insert(pointers.end(), {params[k].data(), grads[k].data(), steps[k].data()});
  }
  kernel.run_levels(arguments, [&](const KernelObject& object) {
    launch_horizontal(object, kernel.analysis(),
                      {.pointers = pointers, .extents = sizes, .strides = {}, .scalars = scalars});
  });
  EXPECT_EQ(params, expected);
}

}  // namespace
}  // namespace neuron::testing
