// SPDX-License-Identifier: Apache-2.0
//
// Records of scans, losses, triangles and indexing.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>

#include "torch/lowered_call.h"

namespace neuron::glue {
namespace {

int64_t word(at::ScalarType type) { return static_cast<int64_t>(to_dtype(type)); }

bool is_index(const at::Tensor& t) {
  return at::isIntegralType(t.scalar_type(), /*includeBool=*/false);
}

int64_t wrap(int64_t dim, const at::Tensor& t) { return c10::maybe_wrap_dim(dim, t.dim()); }

// The words of an indexing record; `dim` alone is indexed.
void add_indexing_words(LoweredCall& call, int64_t dim, int64_t rank, int64_t last) {
  call.structural(dim);
  call.structural(rank);
  call.structural(int64_t{1} << dim);
  call.structural(last);
}

bool has_dims(std::initializer_list<const at::Tensor*> tensors) {
  for (const at::Tensor* t : tensors) {
    if (t->dim() == 0) return false;
  }
  return true;
}

}  // namespace

bool scan(LoweredOp op, const at::Tensor& out, const at::Tensor& self, int64_t dim) {
  const DType type = to_dtype(out.scalar_type());
  if (type == DType::kOpaque || type == DType::kBool) return false;
  LoweredCall call(op);
  call.write(out);
  call.read(self);
  call.structural(static_cast<int64_t>(type));
  call.structural(wrap(dim, self));
  return call.record();
}

bool triangle(LoweredOp op, const at::Tensor& out, const at::Tensor& self, int64_t diagonal) {
  if (self.dim() < 2) return false;
  LoweredCall call(op);
  call.write(out);
  call.read(self);
  call.structural(word(out.scalar_type()));
  call.structural(0);
  call.value(diagonal);
  return call.record();
}

bool loss(LoweredOp op, const at::Tensor& out, const at::Tensor& self, const at::Tensor& target,
          int64_t mode, std::initializer_list<double> values) {
  if (!at::isFloatingType(self.scalar_type()) || !at::isFloatingType(target.scalar_type())) {
    return false;
  }
  LoweredCall call(op);
  call.write(out);
  call.read(self);
  call.read(target);
  call.structural(word(out.scalar_type()));
  call.structural(0b11);
  call.structural(mode);
  for (const double value : values) call.value(value);
  return call.record();
}

bool nll_loss(const at::Tensor& out, const at::Tensor& total_weight, const at::Tensor& self,
              const at::Tensor& target, const at::Tensor& weight, int64_t mode,
              int64_t ignore_index) {
  if (self.numel() == 0 || target.numel() == 0 || target.dim() == 0 || !is_index(target)) {
    return false;
  }
  const bool sums = mode != at::Reduction::None || self.dim() == 1;
  if (!sums) {
    // No weights are summed up; the output is there all the same.
    if (total_weight.numel() != 1) return false;
    if (!pointwise(LoweredOp::kFill, total_weight.scalar_type(), total_weight, {0.0})) return false;
  }
  LoweredCall call(LoweredOp::kNllLoss);
  call.write(out);
  if (sums) call.write(total_weight);
  call.read(self);
  call.read(target);
  if (weight.defined()) call.read(weight);
  call.structural(self.dim() == 1 ? 0 : 1);
  call.structural(weight.defined() ? 1 : 0);
  call.structural(self.dim() == 1 && mode == at::Reduction::None ? int64_t{at::Reduction::Sum}
                                                                 : mode);
  call.structural(0);
  call.value(ignore_index);
  return call.record();
}

bool nll_loss_backward(const at::Tensor& grad_input, const at::Tensor& grad_output,
                       const at::Tensor& self, const at::Tensor& target, const at::Tensor& weight,
                       int64_t mode, int64_t ignore_index, const at::Tensor& total_weight) {
  if (self.numel() == 0 || target.dim() == 0 || !is_index(target)) return false;
  LoweredCall call(LoweredOp::kNllLossBackward);
  call.write(grad_input);
  call.read(grad_output);
  call.read(target);
  if (weight.defined()) call.read(weight);
  if (mode == at::Reduction::Mean) call.read(total_weight);
  call.structural(self.dim() == 1 ? 0 : 1);
  call.structural(weight.defined() ? 1 : 0);
  call.structural(self.dim() == 1 && mode == at::Reduction::None ? int64_t{at::Reduction::Sum}
                                                                 : mode);
  call.structural(0);
  call.value(ignore_index);
  return call.record();
}

bool gather(const at::Tensor& out, const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  if (!has_dims({&self, &index}) || !is_index(index)) return false;
  LoweredCall call(LoweredOp::kGather);
  call.write(out);
  call.read(self);
  call.read(index);
  add_indexing_words(call, wrap(dim, self), 0, 0);
  return call.record();
}

bool index_select(const at::Tensor& out, const at::Tensor& self, int64_t dim,
                  const at::Tensor& index) {
  if (!has_dims({&self, &index}) || !is_index(index)) return false;
  LoweredCall call(LoweredOp::kIndexSelect);
  call.write(out);
  call.read(self);
  call.read(index);
  add_indexing_words(call, wrap(dim, self), 1, 0);
  return call.record();
}

bool embedding_backward(const at::Tensor& out, const at::Tensor& grad, const at::Tensor& indices,
                        int64_t padding_row) {
  if (!has_dims({&indices}) || !is_index(indices) || !at::isFloatingType(out.scalar_type())) {
    return false;
  }
  LoweredCall call(LoweredOp::kEmbeddingBackward);
  call.write(out);
  call.read(grad);
  call.read(indices);
  add_indexing_words(call, 0, indices.dim(), 0);
  call.value(padding_row < 0 ? int64_t{-1} : padding_row);
  return call.record();
}

bool scatter(LoweredOp op, const at::Tensor& out, const at::Tensor& self, int64_t dim,
             const at::Tensor& index, const PointwiseArgument& value) {
  const bool tensor = value.tensor != nullptr;
  if (!has_dims({&self, &index}) || !is_index(index)) return false;
  if (tensor && (value.tensor->dim() == 0 || value.tensor->scalar_type() != self.scalar_type())) {
    return false;
  }
  const bool truth = self.scalar_type() == at::kBool;
  if (truth && op != LoweredOp::kScatter) return false;
  LoweredCall call(op);
  call.write(out);
  call.read(self);
  call.read(index);
  if (tensor) call.read(*value.tensor);
  add_indexing_words(call, wrap(dim, self), 0, tensor ? 0 : 1);
  if (!tensor) {
    if (value.number == nullptr || value.number->isComplex()) return false;
    if (at::isFloatingType(self.scalar_type())) {
      call.value(value.number->toDouble());
    } else {
      call.value(value.number->isFloatingPoint()
                     ? static_cast<int64_t>(value.number->toDouble())
                     : value.number->toLong());
    }
  }
  return call.record();
}

bool scatter_reduce(const at::Tensor& out, const at::Tensor& self, int64_t dim,
                    const at::Tensor& index, const at::Tensor& source, c10::string_view name,
                    bool include_self) {
  const auto as = [&](LoweredOp with, LoweredOp only) {
    return scatter(include_self ? with : only, out, self, dim, index, source);
  };
  if (name == "sum" || name == "add") return as(LoweredOp::kScatterAdd, LoweredOp::kScatterAddOnly);
  if (name == "prod" || name == "multiply") {
    return as(LoweredOp::kScatterMul, LoweredOp::kScatterMulOnly);
  }
  if (name == "amax") return as(LoweredOp::kScatterMax, LoweredOp::kScatterMaxOnly);
  if (name == "amin") return as(LoweredOp::kScatterMin, LoweredOp::kScatterMinOnly);
  return false;
}

bool cat(const at::Tensor& out, const at::ITensorListRef& tensors, int64_t dim) {
  c10::SmallVector<const at::Tensor*, 8> parts;
  for (const at::Tensor& t : tensors) {
    // The old rule of cat: 1-dim tensors without elements do not count.
    if (t.numel() == 0) continue;
    if (t.device() != out.device() || t.dim() != out.dim()) return false;
    parts.push_back(&t);
  }
  if (parts.size() < 2 || parts.size() > op_info(op_id(LoweredOp::kCat)).operands) return false;
  LoweredCall call(LoweredOp::kCat);
  call.write(out);
  for (const at::Tensor* part : parts) call.read(*part);
  call.structural(wrap(dim, out));
  for (int unused = 1; unused < static_cast<int>(kIndexingWords); ++unused) call.structural(0);
  return call.record();
}

}  // namespace neuron::glue
