// SPDX-License-Identifier: Apache-2.0
#include "torch/structured.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_like.h>

#include "torch/tensor.h"

namespace neuron::glue {
namespace {

void allocate_output(at::Tensor& output, at::IntArrayRef sizes, at::IntArrayRef strides,
                     const at::TensorOptions& options) {
  const at::ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
  output = strides.empty() ? empty(sizes, dtype, options.device(), options.memory_format_opt())
                           : empty_strided(sizes, strides, dtype, options.device());
}

void check_inplace(const at::Tensor& self, at::IntArrayRef sizes,
                   const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ",
              self.dtype(), " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(options.device() == self.device(), "Bad in-place call: input tensor device ",
              self.device(), " and output tensor device ", options.device(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(),
              " and output tensor size ", sizes, " should match");
}

void resize_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ",
              options.dtype(), ", but got ", out.dtype(), " instead");
  TORCH_CHECK(options.device() == out.device(), "Expected out tensor to have device ",
              options.device(), ", but got ", out.device(), " instead");
  // The strides asked for are a hint: an output of the right size keeps its own.
  if (!at::native::resize_output(out, sizes)) return;
  c10::TensorImpl* impl = out.unsafeGetTensorImpl();
  if (!strides.empty()) {
    impl->set_sizes_and_strides(sizes, strides);
  } else if (options.memory_format_opt().has_value()) {
    impl->empty_tensor_restride(*options.memory_format_opt());
  }
}

}  // namespace

void prepare_output(Variant variant, at::Tensor& output, at::IntArrayRef sizes,
                    at::IntArrayRef strides, const at::TensorOptions& options) {
  switch (variant) {
    case Variant::kFunctional:
      return allocate_output(output, sizes, strides, options);
    case Variant::kInplace:
      return check_inplace(output, sizes, options);
    case Variant::kOut:
      return resize_out(output, sizes, strides, options);
  }
}

ContiguousOutput::ContiguousOutput(const at::Tensor& operand)
    : operand_(operand),
      result_(operand.is_contiguous()
                  ? operand
                  : at::empty_like(operand, at::MemoryFormat::Contiguous)) {}

void ContiguousOutput::store() {
  if (!result_.is_same(operand_)) operand_.copy_(result_);
}

void read_list(OpCall& call, const OptionalTensorList& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) call.read(tensors.get(i));
}

OptionalTensorList optional_list(const at::Tensor* operands, size_t count) {
  OptionalTensorList list;
  list.reserve(count);
  for (size_t i = 0; i < count; ++i) list.push_back(optional(operands[i]));
  return list;
}

bool keeps_rows(const at::Tensor& self, at::IntArrayRef dims) {
  if (self.dim() < 2 || dims.empty()) return false;
  for (const int64_t dim : dims) {
    if (c10::maybe_wrap_dim(dim, self.dim()) == 0) return false;
  }
  return true;
}

}  // namespace neuron::glue
