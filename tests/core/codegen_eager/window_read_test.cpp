// SPDX-License-Identifier: Apache-2.0
//
// Pads, concatenation, and movement that is written with copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "core/codegen_eager/indexing_testing.h"
#include "neuron/eager/executor.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

using test::IndexingTest;
using test::Sizes;
using test::Tensor;

const DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64,
                         DType::kInt64,   DType::kInt32,    DType::kInt8,    DType::kBool};

class WindowReadTest : public IndexingTest {
 protected:
  // `begins` per dim, -1: the dim is not padded.
  void pad(LoweredOp op, const Tensor& self, const std::vector<int64_t>& begins, double fill,
           const Tensor& out) {
    int64_t mask = 0;
    for (size_t d = 0; d < begins.size(); ++d) mask |= int64_t{begins[d] >= 0} << d;
    AttributeWriter a = words({0, mask});
    if (op == LoweredOp::kPad) {
      if (is_floating(self.dtype)) {
        a.value(fill);
      } else {
        a.value(static_cast<int64_t>(fill));
      }
    }
    for (int64_t b : begins) {
      if (b >= 0) a.value(b);
    }
    s.record(op, {self}, {out}, a);
  }

  void cat(const std::vector<Tensor>& inputs, int64_t dim, const Tensor& out) {
    s.record(LoweredOp::kCat, inputs, {out}, words({dim}));
  }

  void copy(const Tensor& from, const Tensor& to) { s.pointwise(LoweredOp::kCopy, {from}, to); }

  // result[at] = self[source(at)], or `fill` without a source.
  void expect_moved(const Tensor& self, const Tensor& out, double fill,
                    const std::function<std::optional<Sizes>(Sizes)>& source) {
    run();
    for (int64_t i = 0; i < out.numel(); ++i) {
      const std::optional<Sizes> at = source(test::position(out, i));
      ASSERT_EQ(test::get(out, i), at ? test::get(self, linear(self.sizes, *at)) : fill)
          << "element " << i << " of dtype " << name(out.dtype);
    }
  }
};

TEST_F(WindowReadTest, ConstantPadFillsOutside) {
  const std::vector<std::vector<int64_t>> kBegins = {
      {-1, -1, 3}, {2, -1, -1}, {-1, 0, -1}, {1, 2, 3}, {0, 4, 0}};
  for (DType dtype : kDTypes) {
    for (bool transposed : {false, true}) {
      for (const auto& begins : kBegins) {
        const Tensor self = transposed ? strided({3, 4, 21}, dtype) : whole({3, 4, 21}, dtype);
        Sizes sizes = self.sizes;
        for (size_t d = 0; d < 3; ++d) sizes[d] += begins[d] < 0 ? 0 : begins[d] + 2;
        Tensor out = s.empty(sizes, dtype);
        if (transposed) out = s.empty({sizes[2], sizes[1], sizes[0]}, dtype).transpose(0, 2);
        pad(LoweredOp::kPad, self, begins, 1, out);
        expect_moved(self, out, 1, [&](Sizes p) -> std::optional<Sizes> {
          for (size_t d = 0; d < 3; ++d) {
            p[d] -= std::max<int64_t>(begins[d], 0);
            if (p[d] < 0 || p[d] >= self.sizes[d]) return std::nullopt;
          }
          return p;
        });
      }
    }
  }
}

// The parts of a view of a larger tensor look as if they could be merged with their pads.
TEST_F(WindowReadTest, PadOfASliceInsideItsOwnTensor) {
  const Tensor whole_tensor = whole({4, 6}, DType::kFloat32);
  const Tensor self = whole_tensor.slice(1, 1, 3).slice(0, 1, 2);
  const Tensor out = s.empty({4, 6});
  pad(LoweredOp::kPad, self, {1, 2}, -7, out);
  expect_moved(self, out, -7, [&](Sizes p) -> std::optional<Sizes> {
    p = {p[0] - 1, p[1] - 2};
    if (p[0] < 0 || p[0] >= 2 || p[1] < 0 || p[1] >= 3) return std::nullopt;
    return p;
  });
}

TEST_F(WindowReadTest, PadOfADimOfSizeOne) {
  const Tensor self = whole({1, 5}, DType::kFloat32), out = s.empty({4, 5});
  pad(LoweredOp::kPad, self, {2, -1}, 0, out);
  expect_moved(self, out, 0, [&](Sizes p) -> std::optional<Sizes> {
    if (p[0] != 2) return std::nullopt;
    return Sizes{0, p[1]};
  });
}

TEST_F(WindowReadTest, ReflectionAndReplicationPads) {
  for (DType dtype : kDTypes) {
    for (bool transposed : {false, true}) {
      const Tensor self = transposed ? strided({3, 5, 18}, dtype) : whole({3, 5, 18}, dtype);
      const std::vector<int64_t> begins{-1, 4, 5};
      for (LoweredOp op : {LoweredOp::kReflectionPad, LoweredOp::kReplicationPad}) {
        const Tensor out = s.empty({3, 13, 30}, dtype);
        pad(op, self, begins, 0, out);
        expect_moved(self, out, 0, [&](Sizes p) -> std::optional<Sizes> {
          for (size_t d = 1; d < 3; ++d) {
            const int64_t last = self.sizes[d] - 1;
            p[d] -= begins[d];
            if (op == LoweredOp::kReplicationPad) {
              p[d] = std::clamp<int64_t>(p[d], 0, last);
            } else {
              if (p[d] < 0) p[d] = -p[d];
              if (p[d] > last) p[d] = 2 * last - p[d];
            }
          }
          return p;
        });
      }
    }
  }
}

TEST_F(WindowReadTest, CatAlongEveryDim) {
  for (DType dtype : kDTypes) {
    for (bool transposed : {false, true}) {
      for (size_t dim = 0; dim < 3; ++dim) {
        for (size_t count : {2, 4}) {
          std::vector<Tensor> inputs;
          Sizes sizes{3, 4, 18};
          sizes[dim] = 0;
          for (size_t k = 0; k < count; ++k) {
            Sizes own{3, 4, 18};
            own[dim] = k == 1 ? 1 : 5 + static_cast<int64_t>(k);
            sizes[dim] += own[dim];
            inputs.push_back(transposed ? strided(own, dtype) : whole(own, dtype));
          }
          const Tensor out = s.empty(sizes, dtype);
          cat(inputs, static_cast<int64_t>(dim), out);
          run();
          for (int64_t i = 0; i < out.numel(); ++i) {
            Sizes p = test::position(out, i);
            size_t k = 0;
            for (; p[dim] >= inputs[k].sizes[dim]; ++k) p[dim] -= inputs[k].sizes[dim];
            ASSERT_EQ(test::get(out, i), test::get(inputs[k], linear(inputs[k].sizes, p)));
          }
        }
      }
    }
  }
}

TEST_F(WindowReadTest, CatConvertsItsInputs) {
  const Tensor a = whole({6}, DType::kInt32), b = random({5}, DType::kBFloat16, -3, 3);
  const Tensor out = s.empty({11});
  cat({a, b}, 0, out);
  run();
  for (int64_t i = 0; i < 11; ++i) {
    EXPECT_EQ(test::get(out, i), i < 6 ? test::get(a, i) : test::get(b, i - 6));
  }
}

TEST_F(WindowReadTest, FlipIsACopyFromNegativeStrides) {
  for (DType dtype : kDTypes) {
    for (unsigned flipped = 1; flipped < 8; ++flipped) {
      const Tensor self = whole({3, 4, 37}, dtype), out = s.empty({3, 4, 37}, dtype);
      Tensor from = self;
      for (size_t d = 0; d < 3; ++d) {
        if ((flipped >> d & 1) == 0) continue;
        from.offset += (self.sizes[d] - 1) * self.strides[d];
        from.strides[d] = -self.strides[d];
      }
      copy(from, out);
      expect_moved(self, out, 0, [&](Sizes p) -> std::optional<Sizes> {
        for (size_t d = 0; d < 3; ++d) {
          if ((flipped >> d & 1) != 0) p[d] = self.sizes[d] - 1 - p[d];
        }
        return p;
      });
    }
  }
}

TEST_F(WindowReadTest, RollIsACatOfTwoParts) {
  const Tensor self = whole({4, 21}, DType::kFloat32), out = s.empty({4, 21});
  cat({self.slice(1, 16, 5), self.slice(1, 0, 16)}, 1, out);
  expect_moved(self, out, 0, [](Sizes p) -> std::optional<Sizes> {
    return Sizes{p[0], (p[1] + 16) % 21};
  });
}

TEST_F(WindowReadTest, RepeatsAreCopiesFromBroadcastDims) {
  const Tensor self = whole({3, 5}, DType::kFloat32);
  Tensor from = self.reshape({1, 3, 1, 5}).expand(0, 2).expand(2, 4);
  const Tensor out = s.empty({6, 20});
  copy(from, out.reshape({2, 3, 4, 5}));
  expect_moved(self, out, 0, [](Sizes p) -> std::optional<Sizes> {
    return Sizes{p[0] % 3, p[1] % 5};
  });
  from = self.reshape({3, 5, 1}).expand(2, 4);
  const Tensor interleaved = s.empty({3, 20});
  copy(from, interleaved.reshape({3, 5, 4}));
  expect_moved(self, interleaved, 0, [](Sizes p) -> std::optional<Sizes> {
    return Sizes{p[0], p[1] / 4};
  });
}

// Rotary embedding: half of the rows turned, the halves swapped, all consumers in one kernel.
TEST_F(WindowReadTest, CatFusesWithItsConsumersToTheBit) {
  EagerExecutor executor(test::kernels());
  const Tensor x = random({2, 3, 7, 20}, DType::kFloat32, -3, 3);
  const Tensor sine = random({7, 20}, DType::kFloat32, -1, 1);
  const Tensor cosine = random({7, 20}, DType::kFloat32, -1, 1);
  std::vector<std::vector<double>> results;
  for (int repeat = 0; repeat < 4; ++repeat) {
    const Tensor y = s.empty(x.sizes);
    {
      const Tensor turned = s.empty({2, 3, 7, 10}), swapped = s.empty(x.sizes);
      const Tensor a = s.empty(x.sizes), b = s.empty(x.sizes);
      s.pointwise(LoweredOp::kNeg, {x.slice(3, 10, 10)}, turned);
      cat({turned, x.slice(3, 0, 10)}, 3, swapped);
      s.pointwise(LoweredOp::kMul, {x, cosine}, a);
      s.pointwise(LoweredOp::kMul, {swapped, sine}, b);
      s.pointwise(LoweredOp::kAdd, {a, b}, y);
    }
    if (repeat == 1) {
      const std::string plan = s.plan();
      EXPECT_NE(plan.find("pointwise Cat Mul Mul Add\n"), std::string::npos) << plan;
    }
    test::run_window(s.window(), executor, repeat == 0 ? EagerMode::kStrict : EagerMode::kAdaptive);
    test::kernels().wait_idle();
    results.push_back(values(y));
  }
  for (const auto& r : results) EXPECT_EQ(r, results[0]);
}

// The window [5, 4] of a pad meets consumers that walk it as 20 elements.
TEST_F(WindowReadTest, PadsOfSlicesAddUpInOneKernel) {
  EagerExecutor executor(test::kernels());
  const Tensor g = random({5, 2}, DType::kFloat32, -3, 3),
               h = random({5, 2}, DType::kFloat32, -3, 3);
  const Tensor scale = random({20}, DType::kFloat32, -3, 3);
  std::vector<std::vector<double>> results;
  for (int repeat = 0; repeat < 4; ++repeat) {
    const Tensor out = s.empty({20});
    {
      const Tensor low = s.empty({5, 4}), high = s.empty({5, 4}), sum = s.empty({5, 4});
      pad(LoweredOp::kPad, g, {-1, 0}, 0, low);
      pad(LoweredOp::kPad, h, {-1, 2}, 0, high);
      s.pointwise(LoweredOp::kAdd, {low, high}, sum);
      s.pointwise(LoweredOp::kMul, {sum.reshape({20}), scale}, out);
    }
    if (repeat == 1) {
      const std::string plan = s.plan();
      EXPECT_NE(plan.find("Pad Pad Add Mul"), std::string::npos) << plan;
    }
    test::run_window(s.window(), executor, repeat == 0 ? EagerMode::kStrict : EagerMode::kAdaptive);
    test::kernels().wait_idle();
    results.push_back(values(out));
    for (int64_t i = 0; i < 20; ++i) {
      const int64_t row = i / 4, column = i % 4;
      const double x =
          column < 2 ? test::get(g, row * 2 + column) : test::get(h, row * 2 + column - 2);
      ASSERT_EQ(test::get(out, i), static_cast<float>(x * test::get(scale, i)));
    }
  }
  for (const auto& r : results) EXPECT_EQ(r, results[0]);
}

}  // namespace
}  // namespace neuron
