// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the eager tests: tensors over pool memory, and a Session that records operations into
// a window the way the glue does.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "neuron/eager/analysis.h"
#include "neuron/fuse/fusion.h"
#include "neuron/lower/attributes.h"
#include "neuron/lower/op_table.h"
#include "neuron/runtime/runtime.h"
#include "neuron/runtime/window.h"
#include "test_target.h"

namespace neuron::test {

using Sizes = std::vector<int64_t>;

inline Sizes contiguous(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

// A view of a block; the storage is shared, as in PyTorch.
struct Tensor {
  std::shared_ptr<Block> storage;  // freed with the last tensor
  DType dtype = DType::kFloat32;
  Sizes sizes, strides;
  int64_t offset = 0;  // elements

  int64_t numel() const {
    return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  }
  Tensor transpose(size_t a, size_t b) const {
    Tensor t = *this;
    std::swap(t.sizes[a], t.sizes[b]);
    std::swap(t.strides[a], t.strides[b]);
    return t;
  }
  Tensor slice(size_t dim, int64_t start, int64_t length) const {
    Tensor t = *this;
    t.sizes[dim] = length;
    t.offset += start * t.strides[dim];
    return t;
  }
  Tensor reshape(Sizes to) const {  // of a contiguous tensor
    Tensor t = *this;
    t.sizes = std::move(to);
    t.strides = contiguous(t.sizes);
    return t;
  }
  Tensor expand(size_t dim, int64_t size) const {  // a dim of size 1
    Tensor t = *this;
    t.sizes[dim] = size;
    t.strides[dim] = 0;
    return t;
  }
  bool is_contiguous() const { return strides == contiguous(sizes); }

  TensorRef ref() const {
    TensorRef r;
    r.block = storage.get();
    r.byte_offset = offset * static_cast<int64_t>(element_size(dtype));
    r.sizes = sizes.data();
    r.strides = strides.data();
    r.rank = static_cast<uint8_t>(sizes.size());
    r.dtype = dtype;
    return r;
  }
  template <typename T>
  T* data() const {
    return reinterpret_cast<T*>(storage->address()) + offset;
  }
};

class Session {
 public:
  explicit Session(int64_t memory = int64_t{1} << 30)
      : runtime_(std::make_unique<SmallTarget>(1, memory)),
        stream_(runtime_.device(0).default_stream()) {}
  ~Session() {
    window_.clear();
    runtime_.shutdown();
  }

  Tensor empty(const Sizes& sizes, DType dtype = DType::kFloat32) {
    Tensor t;
    t.dtype = dtype;
    t.sizes = sizes;
    t.strides = contiguous(sizes);
    MemoryPool& pool = runtime_.device(0).pool();
    Block* block = pool.allocate(static_cast<size_t>(t.numel()) * element_size(dtype), &stream_);
    t.storage = std::shared_ptr<Block>(block, [&pool](Block* b) { pool.free(b); });
    return t;
  }

  void record(LoweredOp op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
              const AttributeWriter& attributes) {
    std::vector<TensorRef> in, out;
    for (const Tensor& t : inputs) in.push_back(t.ref());
    for (const Tensor& t : outputs) {
      out.push_back(t.ref());
      out.back().overwrites =
          t.is_contiguous() &&
          static_cast<size_t>(t.numel()) * element_size(t.dtype) == t.storage->bytes();
    }
    RecordRequest request;
    request.op = op_id(op);
    request.inputs = in;
    request.outputs = out;
    request.attributes = attributes.bytes();
    append(std::move(request));
  }

  // A pointwise operation with tensor operands only.
  void pointwise(LoweredOp op, const std::vector<Tensor>& inputs, const Tensor& output,
                 const std::vector<double>& values = {}, DType common = DType::kOpaque) {
    AttributeWriter a;
    if (common == DType::kOpaque) common = inputs.empty() ? output.dtype : inputs.back().dtype;
    a.structural(static_cast<int64_t>(common));
    a.structural(0);
    for (double v : values) a.value(v);
    record(op, inputs, {output}, a);
  }

  // A binary operation whose second operand is a host scalar.
  void with_scalar(LoweredOp op, const Tensor& input, double scalar, const Tensor& output) {
    AttributeWriter a;
    a.structural(static_cast<int64_t>(input.dtype));
    a.structural(0b10);
    if (is_floating(input.dtype)) {
      a.value(scalar);
    } else {
      a.value(static_cast<int64_t>(scalar));
    }
    record(op, {input}, {output}, a);
  }

  void fill(const Tensor& output, double value) {
    AttributeWriter a;
    a.structural(static_cast<int64_t>(output.dtype));
    a.structural(0b1);
    if (is_floating(output.dtype)) {
      a.value(value);
    } else {
      a.value(static_cast<int64_t>(value));
    }
    record(LoweredOp::kFill, {}, {output}, a);
  }

  void reduce(LoweredOp op, const Tensor& input, const std::vector<size_t>& dims, bool keepdim,
              const std::vector<Tensor>& outputs, const std::vector<double>& values = {}) {
    AttributeWriter a;
    a.structural(static_cast<int64_t>(input.dtype));
    int64_t mask = 0;
    for (size_t d : dims) mask |= int64_t{1} << d;
    a.structural(mask);
    a.structural(keepdim);
    for (double v : values) a.value(v);
    record(op, {input}, outputs, a);
  }

  void softmax(LoweredOp op, const std::vector<Tensor>& inputs, int64_t dim, const Tensor& output) {
    AttributeWriter a;
    a.structural(static_cast<int64_t>(inputs[0].dtype));
    a.structural(dim);
    record(op, inputs, {output}, a);
  }

  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t dims,
                  double eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
    AttributeWriter a;
    a.structural(dims);
    a.structural(0b111);
    a.structural(0b111);
    a.value(eps);
    record(LoweredOp::kLayerNorm, {x, weight, bias}, {y, mean, rstd}, a);
  }

  void layer_norm_backward(const std::vector<Tensor>& inputs, int64_t dims, int64_t wanted,
                           const std::vector<Tensor>& outputs) {
    AttributeWriter a;
    a.structural(dims);
    a.structural(inputs.size() == 5 ? 0b11111 : 0b1111);
    a.structural(wanted);
    record(LoweredOp::kLayerNormBackward, inputs, outputs, a);
  }

  // A host call that reads and writes whole blocks.
  void host(std::function<void()> body, const std::vector<Tensor>& read,
            const std::vector<Tensor>& written) {
    std::vector<TensorRef> in, out;
    for (const Tensor& t : read) in.emplace_back().block = t.storage.get();
    for (const Tensor& t : written) {
      out.emplace_back().block = t.storage.get();
      out.back().overwrites = true;
    }
    RecordRequest request;
    request.inputs = in;
    request.outputs = out;
    request.host = std::make_unique<LambdaCall>(std::move(body));
    append(std::move(request));
  }

  // Called for every record before it is appended; may run the window.
  std::function<void(Window&)> before_append;

  Window& window() { return window_; }
  Stream& stream() { return stream_; }

  // The plan of the whole window.
  std::string plan(const FusionOptions& options = {}) {
    const WindowForm& form = analyzer_.analyze(window_, 0, window_.size());
    return to_text(make_plan(form, options), form);
  }
  const WindowForm& form() { return analyzer_.analyze(window_, 0, window_.size()); }

 private:
  void append(RecordRequest&& request) {
    if (before_append) before_append(window_);
    window_.append(std::move(request));
  }

  Runtime runtime_;
  Stream& stream_;
  Window window_;
  WindowAnalyzer analyzer_;
};

}  // namespace neuron::test
