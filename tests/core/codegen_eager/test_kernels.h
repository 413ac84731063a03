// SPDX-License-Identifier: Apache-2.0
//
// A kernel cache of its own for the eager tests, windows run to their end, and elements as doubles.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/eager_testing.h"
#include "neuron/eager/executor.h"
#include "neuron/host/half.h"
#include "neuron/host/kernel_compiler.h"

namespace neuron::test {

inline KernelCache& kernels() {
  static KernelCache* cache = [] {
    KernelCompiler::instance().set_library_path(NEURON_CODEGEN_LIBRARY);
    KernelCache::Options options;
    options.build_id = "test";
    options.features = host_features();
    options.compile = [](std::string_view text, const std::string& features) {
      return KernelCompiler::instance().compile(text, features);
    };
    return new KernelCache(std::move(options));
  }();
  return *cache;
}

// Runs and empties the window; returns the messages of failed records. Windows are those that the
// executor chooses if `cut`, else the whole.
inline std::vector<std::string> run_window(Window& w, EagerExecutor& executor, EagerMode mode,
                                           bool may_fail = false, bool cut = false) {
  set_eager_mode(mode);
  std::vector<std::string> errors;
  for (size_t done = 0; done < w.size();) {
    const size_t length = cut ? executor.next(w, done, w.size(), "HostRead") : w.size() - done;
    if (length == 0) continue;  // has waited for a compile
    const size_t count = executor.run(w, done, done + length, [&](size_t, auto error) {
      errors.push_back(error->message());
      if (!may_fail) ADD_FAILURE() << error->message();
    });
    for (size_t k = 0; k < count; ++k) w.retire(done++);
  }
  w.clear();
  return errors;
}

inline std::vector<std::string> run_window(Window& w, EagerMode mode, bool may_fail = false) {
  EagerExecutor executor(kernels());
  return run_window(w, executor, mode, may_fail);
}

// Indices of the logical element `i`, and its value.
inline Sizes position(const Tensor& t, int64_t i) {
  Sizes at(t.sizes.size());
  for (size_t d = t.sizes.size(); d-- > 0;) {
    at[d] = i % t.sizes[d];
    i /= t.sizes[d];
  }
  return at;
}

inline int64_t element(const Tensor& t, int64_t i) {
  const Sizes at = position(t, i);
  int64_t e = 0;
  for (size_t d = 0; d < at.size(); ++d) e += at[d] * t.strides[d];
  return e;
}

inline double get(const Tensor& t, int64_t i) {
  const int64_t e = element(t, i);
  switch (t.dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return t.data<uint8_t>()[e];
    case DType::kInt8:
      return t.data<int8_t>()[e];
    case DType::kInt16:
      return t.data<int16_t>()[e];
    case DType::kInt32:
      return t.data<int32_t>()[e];
    case DType::kInt64:
      return static_cast<double>(t.data<int64_t>()[e]);
    case DType::kFloat16:
      return f16_to_float(t.data<uint16_t>()[e]);
    case DType::kBFloat16:
      return bf16_to_float(t.data<uint16_t>()[e]);
    case DType::kFloat32:
      return t.data<float>()[e];
    default:
      return t.data<double>()[e];
  }
}

inline void set(const Tensor& t, int64_t i, double v) {
  const int64_t e = element(t, i);
  switch (t.dtype) {
    case DType::kBool:
      t.data<uint8_t>()[e] = v >= 1;
      break;
    case DType::kUInt8:
      t.data<uint8_t>()[e] = static_cast<uint8_t>(v);
      break;
    case DType::kInt8:
      t.data<int8_t>()[e] = static_cast<int8_t>(v);
      break;
    case DType::kInt16:
      t.data<int16_t>()[e] = static_cast<int16_t>(v);
      break;
    case DType::kInt32:
      t.data<int32_t>()[e] = static_cast<int32_t>(v);
      break;
    case DType::kInt64:
      t.data<int64_t>()[e] = static_cast<int64_t>(v);
      break;
    case DType::kFloat16:
      t.data<uint16_t>()[e] = float_to_f16(static_cast<float>(v));
      break;
    case DType::kBFloat16:
      t.data<uint16_t>()[e] = float_to_bf16(static_cast<float>(v));
      break;
    case DType::kFloat32:
      t.data<float>()[e] = static_cast<float>(v);
      break;
    default:
      t.data<double>()[e] = v;
  }
}

}  // namespace neuron::test
