// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the kernel tests: compile a nest for every instruction set that this processor has,
// run it, and check that all give the same bits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "neuron/base/error.h"
#include "neuron/host/half.h"
#include "neuron/host/kernel_compiler.h"
#include "neuron/host/kernel_launch.h"
#include "neuron/host/loop_nest.h"

namespace neuron::testing {

constexpr Stride kZero = Stride::kZero;
constexpr Stride kUnit = Stride::kUnit;
constexpr Stride kAny = Stride::kAny;
constexpr DType kF32 = DType::kFloat32;
constexpr DType kF64 = DType::kFloat64;
constexpr DType kBF16 = DType::kBFloat16;
constexpr DType kF16 = DType::kFloat16;
constexpr DType kI32 = DType::kInt32;
constexpr DType kI64 = DType::kInt64;
constexpr DType kBool = DType::kBool;

// The levels that this processor can run, narrowest first.
inline std::vector<std::string> feature_levels() {
  std::vector<std::string> levels{""};
  if (!host_features().empty()) levels.push_back(kFeaturesAvx2);
  if (host_features() == kFeaturesAvx512) levels.push_back(kFeaturesAvx512);
  return levels;
}

// Gives all NaNs one pattern: their sign and payload are not specified.
inline void canonicalize_nans(DType t, void* data, size_t bytes) {
  for (size_t at = 0; is_floating(t) && at + element_size(t) <= bytes; at += element_size(t)) {
    char* place = static_cast<char*>(data) + at;
    uint64_t bits = 0;
    std::memcpy(&bits, place, element_size(t));
    double value = t == kF64   ? std::bit_cast<double>(bits)
                   : t == kF32 ? std::bit_cast<float>(static_cast<uint32_t>(bits))
                   : t == kF16 ? f16_to_float(static_cast<uint16_t>(bits))
                               : bf16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) std::memset(place, 0xff, element_size(t));
  }
}

// One nest, compiled for all levels.
class TestKernel {
 public:
  explicit TestKernel(LoopNest nest) : nest_(std::move(nest)), analysis_(nest_) {
    KernelCompiler::instance().set_library_path(NEURON_CODEGEN_LIBRARY);
    for (const std::string& features : feature_levels())
      objects_.push_back(std::make_unique<KernelObject>(
          KernelCompiler::instance().compile(to_text(nest_), features, NEURON_CODEGEN_VERIFY)));
  }

  // A tensor argument: operand data in place and its strides, one per dim of the nest.
  struct Argument {
    void* data;
    size_t bytes;  // compared and restored between levels
    std::vector<int64_t> strides;
    int64_t index_stride = 0;
  };

  // Runs at every level; the arguments hold the results of the widest. Fails the test when levels
  // differ in a bit.
  void run(const std::vector<Argument>& arguments, const std::vector<int64_t>& extents,
           const std::vector<uint64_t>& scalars = {}) {
    std::vector<void*> pointers;
    std::vector<int64_t> strides, index_strides;
    for (const Argument& a : arguments) {
      pointers.push_back(a.data);
      ASSERT_EQ(a.strides.size(), extents.size());
      strides.insert(strides.end(), a.strides.begin(), a.strides.end());
      index_strides.push_back(a.index_stride);
    }
    run_levels(arguments, [&](const KernelObject& object) {
      launch(object, analysis_,
             {.pointers = pointers,
              .extents = extents,
              .strides = strides,
              .index_strides = index_strides,
              .scalars = scalars});
    });
  }

  void run_levels(const std::vector<Argument>& arguments,
                  const std::function<void(const KernelObject&)>& run_one) {
    std::vector<std::string> before, first;
    for (const Argument& a : arguments) before.emplace_back(static_cast<char*>(a.data), a.bytes);
    for (size_t level = 0; level < objects_.size(); ++level) {
      for (size_t k = 0; k < arguments.size(); ++k)
        std::memcpy(arguments[k].data, before[k].data(), arguments[k].bytes);
      run_one(*objects_[level]);
      bool by_operand = arguments.size() == nest_.operands.size();
      for (size_t k = 0; by_operand && k < arguments.size(); ++k)
        canonicalize_nans(nest_.operands[k].dtype, arguments[k].data, arguments[k].bytes);
      for (size_t k = 0; k < arguments.size(); ++k) {
        if (level == 0) {
          first.emplace_back(static_cast<char*>(arguments[k].data), arguments[k].bytes);
          continue;
        }
        EXPECT_EQ(0, std::memcmp(first[k].data(), arguments[k].data, arguments[k].bytes))
            << "operand " << k << " differs between \"\" and \"" << feature_levels()[level] << "\"";
      }
    }
  }

  const NestAnalysis& analysis() const { return analysis_; }
  const LoopNest& nest() const { return nest_; }

 private:
  LoopNest nest_;
  NestAnalysis analysis_;
  std::vector<std::unique_ptr<KernelObject>> objects_;
};

template <typename T>
TestKernel::Argument argument(std::vector<T>& data, std::vector<int64_t> strides,
                              int64_t index_stride = 0) {
  return {data.data(), data.size() * sizeof(T), std::move(strides), index_stride};
}

inline std::vector<float> random_floats(size_t count, uint32_t seed, float low = -2,
                                        float high = 2) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> v(count);
  for (float& x : v) x = uniform(generator);
  return v;
}

inline std::vector<uint16_t> to_bf16(const std::vector<float>& v) {
  std::vector<uint16_t> out;
  for (float x : v) out.push_back(float_to_bf16(x));
  return out;
}

inline std::vector<uint16_t> to_f16(const std::vector<float>& v) {
  std::vector<uint16_t> out;
  for (float x : v) out.push_back(float_to_f16(x));
  return out;
}

inline float round_bf16(float x) { return bf16_to_float(float_to_bf16(x)); }

}  // namespace neuron::testing
