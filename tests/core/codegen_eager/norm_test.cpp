// SPDX-License-Identifier: Apache-2.0
//
// Batch, group, RMS and weight norms against their definitions in double, alone and fused.
#include <gtest/gtest.h>

#include <cmath>

#include "core/codegen_eager/lowering_testing.h"

namespace neuron {
namespace {

using test::LoweringTest;
using test::Sizes;
using test::Tensor;

class NormTest : public LoweringTest {
 protected:
  // `inputs` holds an empty tensor for absent operands.
  void norm(LoweredOp op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
            int64_t shape, int64_t wanted, const std::vector<double>& values) {
    AttributeWriter a;
    a.structural(shape);
    int64_t mask = 0;
    std::vector<Tensor> present;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].storage == nullptr) continue;
      mask |= int64_t{1} << i;
      present.push_back(inputs[i]);
    }
    a.structural(mask);
    a.structural(wanted);
    for (double v : values) a.value(v);
    s.record(op, present, outputs, a);
  }

  Tensor copy(const Tensor& x) {
    const Tensor y = s.empty(x.sizes, x.dtype);
    for (int64_t i = 0; i < x.numel(); ++i) test::set(y, i, test::get(x, i));
    return y;
  }

  // Contiguous and with the channels last.
  Tensor images(const Sizes& sizes, bool channels_last, DType dtype, double low, double high) {
    if (!channels_last) return random(sizes, dtype, low, high);
    return random({sizes[0], sizes[2], sizes[3], sizes[1]}, dtype, low, high)
        .transpose(2, 3)
        .transpose(1, 2);
  }

  // Of all elements whose number at dim 1 is `channel`.
  template <typename F>
  double over_channel(const Tensor& x, int64_t channel, const F& f) {
    double total = 0;
    for (int64_t i = 0; i < x.numel(); ++i) {
      if (test::position(x, i)[1] == channel) total += f(i);
    }
    return total;
  }
};

double tolerance(DType dtype) {
  return dtype == DType::kFloat64 ? 1e-10 : dtype == DType::kFloat32 ? 2e-5 : 0.04;
}

TEST_F(NormTest, BatchNormInTraining) {
  constexpr double kEps = 1e-3, kMomentum = 0.1;
  const Sizes sizes = {4, 5, 3, 7};
  const double n = 4 * 3 * 7;
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const DType wide = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
    for (bool channels_last : {false, true}) {
      for (bool affine : {true, false}) {
        const Tensor x = images(sizes, channels_last, dtype, -1, 3);
        const Tensor g = images(sizes, channels_last, dtype, -1, 1);
        const Tensor w = affine ? random({5}, wide, 0.5, 1.5) : Tensor();
        const Tensor b = affine ? random({5}, wide, -1, 1) : Tensor();
        const Tensor old_mean = random({5}, wide, -1, 1), old_var = random({5}, wide, 0.5, 2);
        const std::vector<Tensor> r = run_both([&] {
          const Tensor y = s.empty(sizes, dtype), mean = s.empty({5}, wide);
          const Tensor invstd = s.empty({5}, wide), positive = s.empty(sizes, dtype);
          const Tensor running_mean = copy(old_mean), running_var = copy(old_var);
          norm(LoweredOp::kBatchNorm, {x, w, b, running_mean, running_var},
               {y, mean, invstd, running_mean, running_var}, 0, 0, {kMomentum, kEps});
          s.pointwise(LoweredOp::kRelu, {y}, positive);
          const Tensor dx = s.empty(sizes, dtype), dw = s.empty({5}, wide), db = s.empty({5}, wide);
          norm(LoweredOp::kBatchNormBackward, {g, x, w, mean, invstd}, {dx, dw, db}, 0, 0b111, {});
          return std::vector<Tensor>{y, mean, invstd, running_mean, running_var, dx, dw, db};
        });
        const double near = tolerance(dtype);
        for (int64_t c = 0; c < 5; ++c) {
          const auto at = [&](int64_t i) { return test::get(x, i); };
          const double mean = over_channel(x, c, at) / n;
          const double squares =
              over_channel(x, c, [&](int64_t i) { return std::pow(at(i) - mean, 2); });
          const double invstd = 1 / std::sqrt(squares / n + kEps);
          const double weight = affine ? test::get(w, c) : 1, bias = affine ? test::get(b, c) : 0;
          const double db = over_channel(x, c, [&](int64_t i) { return test::get(g, i); });
          const double along = over_channel(
              x, c, [&](int64_t i) { return test::get(g, i) * (at(i) - mean) * invstd; });
          const double small = dtype == DType::kFloat64 ? 1e-10 : 2e-5;
          EXPECT_NEAR(test::get(r[1], c), mean, small);
          EXPECT_NEAR(test::get(r[2], c), invstd, small);
          EXPECT_NEAR(test::get(r[3], c), 0.9 * test::get(old_mean, c) + 0.1 * mean, small);
          EXPECT_NEAR(test::get(r[4], c), 0.9 * test::get(old_var, c) + 0.1 * squares / (n - 1),
                      small);
          EXPECT_NEAR(test::get(r[6], c), along, 10 * small);
          EXPECT_NEAR(test::get(r[7], c), db, 10 * small);
          for (int64_t i = 0; i < x.numel(); ++i) {
            if (test::position(x, i)[1] != c) continue;
            const double normal = (at(i) - mean) * invstd;
            ASSERT_NEAR(test::get(r[0], i), normal * weight + bias, near);
            ASSERT_NEAR(test::get(r[5], i),
                        (test::get(g, i) - db / n - normal * along / n) * invstd * weight, near);
          }
        }
      }
    }
  }
}

TEST_F(NormTest, BatchNormInEvaluation) {
  constexpr double kEps = 1e-3;
  for (const Sizes& sizes : {Sizes{4, 6, 3, 2}, Sizes{9, 6}}) {
    for (int64_t wanted : {0b111, 0b001, 0b110, 0b100}) {
      const Tensor x = random(sizes, DType::kFloat32, -1, 3);
      const Tensor g = random(sizes, DType::kFloat32, -1, 1);
      const Tensor w = random({6}, DType::kFloat32, 0.5, 1.5);
      const Tensor b = random({6}, DType::kFloat32, -1, 1);
      const Tensor m = random({6}, DType::kFloat32, -1, 1), v = random({6}, DType::kFloat32, 1, 2);
      const std::vector<Tensor> r = run_both([&] {
        const Tensor y = s.empty(sizes), positive = s.empty(sizes);
        norm(LoweredOp::kBatchNormInference, {x, w, b, m, v}, {y}, 0, 0, {kEps});
        s.pointwise(LoweredOp::kRelu, {y}, positive);
        std::vector<Tensor> gradients;
        for (int o = 0; o < 3; ++o) {
          if ((wanted >> o & 1) != 0) gradients.push_back(s.empty(o == 0 ? sizes : Sizes{6}));
        }
        norm(LoweredOp::kBatchNormInferenceBackward, {g, x, w, m, v}, gradients, 0, wanted, {kEps});
        std::vector<Tensor> all{y, positive};
        all.insert(all.end(), gradients.begin(), gradients.end());
        return all;
      });
      size_t next = 2;
      const Tensor dx = (wanted & 1) != 0 ? r[next++] : Tensor();
      const Tensor dw = (wanted & 2) != 0 ? r[next++] : Tensor();
      const Tensor db = (wanted & 4) != 0 ? r[next++] : Tensor();
      for (int64_t c = 0; c < 6; ++c) {
        const double invstd = 1 / std::sqrt(test::get(v, c) + kEps);
        const auto normal = [&](int64_t i) { return (test::get(x, i) - test::get(m, c)) * invstd; };
        const auto grad = [&](int64_t i) { return test::get(g, i); };
        for (int64_t i = 0; i < x.numel(); ++i) {
          if (test::position(x, i)[1] != c) continue;
          ASSERT_NEAR(test::get(r[0], i), normal(i) * test::get(w, c) + test::get(b, c), 1e-5);
          if (dx.storage != nullptr) {
            ASSERT_NEAR(test::get(dx, i), grad(i) * invstd * test::get(w, c), 1e-5);
          }
        }
        if (dw.storage != nullptr) {
          EXPECT_NEAR(test::get(dw, c),
                      over_channel(x, c, [&](int64_t i) { return grad(i) * normal(i); }), 1e-4);
        }
        if (db.storage != nullptr) {
          EXPECT_NEAR(test::get(db, c), over_channel(x, c, grad), 1e-5);
        }
      }
    }
  }
}

TEST_F(NormTest, GroupNormAndItsGradients) {
  constexpr double kEps = 1e-3;
  const Sizes sizes = {3, 6, 2, 5};
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const DType wide = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
    for (bool channels_last : {false, true}) {
      for (int64_t groups : {1, 2, 6}) {
        const int64_t per_group = 6 / groups;
        const double n = static_cast<double>(per_group) * 10;
        const Tensor x = images(sizes, channels_last, dtype, -1, 3);
        const Tensor g = images(sizes, channels_last, dtype, -1, 1);
        const Tensor w = random({6}, wide, 0.5, 1.5), b = random({6}, wide, -1, 1);
        const std::vector<Tensor> r = run_both([&] {
          const Tensor y = s.empty(sizes, dtype), mean = s.empty({3, groups}, wide);
          const Tensor rstd = s.empty({3, groups}, wide), positive = s.empty(sizes, dtype);
          norm(LoweredOp::kGroupNorm, {x, w, b}, {y, mean, rstd}, groups, 0, {kEps});
          s.pointwise(LoweredOp::kRelu, {y}, positive);
          const Tensor dx = s.empty(sizes, dtype), dw = s.empty({6}, wide), db = s.empty({6}, wide);
          norm(LoweredOp::kGroupNormBackward, {g, x, mean, rstd, w}, {dx, dw, db}, groups, 0b111,
               {});
          return std::vector<Tensor>{y, mean, rstd, dx, dw, db};
        });
        std::vector<double> dw(6), db(6);
        const auto place = [&](int64_t i) { return test::position(x, i); };
        for (int64_t row = 0; row < 3 * groups; ++row) {
          std::vector<int64_t> members;
          for (int64_t i = 0; i < x.numel(); ++i) {
            if (place(i)[0] * groups + place(i)[1] / per_group == row) members.push_back(i);
          }
          double mean = 0, variance = 0, total = 0, along = 0;
          for (int64_t i : members) mean += test::get(x, i) / n;
          for (int64_t i : members) variance += std::pow(test::get(x, i) - mean, 2) / n;
          const double rstd = 1 / std::sqrt(variance + kEps);
          EXPECT_NEAR(test::get(r[1], row), mean, 1e-5);
          EXPECT_NEAR(test::get(r[2], row), rstd, 2e-5);
          const auto normal = [&](int64_t i) { return (test::get(x, i) - mean) * rstd; };
          const auto weight = [&](int64_t i) { return test::get(w, place(i)[1]); };
          for (int64_t i : members) {
            total += test::get(g, i) * weight(i);
            along += test::get(g, i) * weight(i) * normal(i);
            dw[static_cast<size_t>(place(i)[1])] += test::get(g, i) * normal(i);
            db[static_cast<size_t>(place(i)[1])] += test::get(g, i);
          }
          for (int64_t i : members) {
            ASSERT_NEAR(test::get(r[0], i), normal(i) * weight(i) + test::get(b, place(i)[1]),
                        tolerance(dtype));
            const double grad = test::get(g, i) * weight(i);
            ASSERT_NEAR(test::get(r[3], i), rstd * (grad - total / n - normal(i) * along / n),
                        tolerance(dtype));
          }
        }
        for (int64_t c = 0; c < 6; ++c) {
          EXPECT_NEAR(test::get(r[4], c), dw[static_cast<size_t>(c)], 1e-4);
          EXPECT_NEAR(test::get(r[5], c), db[static_cast<size_t>(c)], 1e-4);
        }
      }
    }
  }
}

TEST_F(NormTest, RmsNormAndItsGradients) {
  constexpr double kEps = 1e-5;
  constexpr int64_t kRows = 6, kWidth = 21;
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const DType wide = dtype == DType::kFloat64 ? dtype : DType::kFloat32;
    for (bool affine : {true, false}) {
      const Tensor x = random({2, 3, kWidth}, dtype, -2, 2), g = random(x.sizes, dtype, -1, 1);
      const Tensor w = affine ? random({kWidth}, dtype, 0.5, 1.5) : Tensor();
      const std::vector<Tensor> r = run_both([&] {
        const Tensor y = s.empty(x.sizes, dtype), rstd = s.empty({2, 3, 1}, wide);
        const Tensor positive = s.empty(x.sizes, dtype), dx = s.empty(x.sizes, dtype);
        norm(LoweredOp::kRmsNorm, {x, w}, {y, rstd}, 1, 0, {kEps});
        s.pointwise(LoweredOp::kRelu, {y}, positive);
        std::vector<Tensor> results{y, rstd, dx}, gradients{dx};
        if (affine) {
          results.push_back(s.empty({kWidth}, dtype));
          gradients.push_back(results.back());
        }
        norm(LoweredOp::kRmsNormBackward, {g, x, rstd, w}, gradients, 1, affine ? 0b11 : 0b01, {});
        return results;
      });
      std::vector<double> dw(kWidth);
      for (int64_t row = 0; row < kRows; ++row) {
        double squares = 0, along = 0;
        const auto at = [&](const Tensor& t, int64_t k) { return test::get(t, row * kWidth + k); };
        const auto weight = [&](int64_t k) { return affine ? test::get(w, k) : 1; };
        for (int64_t k = 0; k < kWidth; ++k) squares += at(x, k) * at(x, k) / kWidth;
        const double rstd = 1 / std::sqrt(squares + kEps);
        EXPECT_NEAR(test::get(r[1], row), rstd, 1e-5);
        for (int64_t k = 0; k < kWidth; ++k) {
          along += at(g, k) * weight(k) * at(x, k) * rstd / kWidth;
          dw[static_cast<size_t>(k)] += at(g, k) * at(x, k) * rstd;
        }
        for (int64_t k = 0; k < kWidth; ++k) {
          ASSERT_NEAR(at(r[0], k), at(x, k) * rstd * weight(k), tolerance(dtype));
          ASSERT_NEAR(at(r[2], k), rstd * (at(g, k) * weight(k) - at(x, k) * rstd * along),
                      tolerance(dtype));
        }
      }
      for (int64_t k = 0; affine && k < kWidth; ++k) {
        EXPECT_NEAR(test::get(r[3], k), dw[static_cast<size_t>(k)], tolerance(dtype));
      }
    }
  }
}

TEST_F(NormTest, WeightNormAlongFirstAndLastDim) {
  for (int64_t dim : {0, 2}) {
    const Tensor v = random({4, 3, 5}, DType::kFloat32, -2, 2);
    const Tensor g = random(v.sizes, DType::kFloat32, -1, 1);
    Sizes kept = {1, 1, 1};
    kept[static_cast<size_t>(dim)] = v.sizes[static_cast<size_t>(dim)];
    const Tensor scale = random(kept, DType::kFloat32, 0.5, 2);
    const Tensor w = s.empty(v.sizes), norms = s.empty(kept), dv = s.empty(v.sizes);
    const Tensor dg = s.empty(kept);
    norm(LoweredOp::kWeightNorm, {v, scale}, {w, norms}, dim, 0, {});
    norm(LoweredOp::kWeightNormBackward, {g, v, scale, norms}, {dv, dg}, dim, 0, {});
    run();
    for (int64_t k = 0; k < scale.numel(); ++k) {
      double squares = 0, along = 0;
      const auto member = [&](int64_t i) {
        return test::position(v, i)[static_cast<size_t>(dim)] == k;
      };
      for (int64_t i = 0; i < v.numel(); ++i) {
        if (member(i)) squares += std::pow(test::get(v, i), 2);
        if (member(i)) along += test::get(v, i) * test::get(g, i);
      }
      const double length = std::sqrt(squares), factor = test::get(scale, k) / length;
      EXPECT_NEAR(test::get(norms, k), length, 1e-5);
      EXPECT_NEAR(test::get(dg, k), along / length, 1e-5);
      for (int64_t i = 0; i < v.numel(); ++i) {
        if (!member(i)) continue;
        EXPECT_NEAR(test::get(w, i), test::get(v, i) * factor, 1e-5);
        EXPECT_NEAR(test::get(dv, i),
                    factor * (test::get(g, i) - test::get(v, i) * along / squares), 1e-5);
      }
    }
  }
}

}  // namespace
}  // namespace neuron
