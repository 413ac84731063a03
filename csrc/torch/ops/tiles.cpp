// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/tiles.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include "torch/tensor.h"

namespace neuron::glue {

at::Tensor geometry(const at::Tensor& alias, at::IntArrayRef sizes, at::IntArrayRef strides,
                    int64_t offset) {
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(alias.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), alias.dtype());
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  impl->set_storage_offset(alias.storage_offset() + offset);
  impl->set_sizes_and_strides(sizes, strides);
  return result;
}

PartialSums::PartialSums(const at::Tensor& result, int64_t tiles) : result_(result) {
  if (!result.defined()) return;
  if (tiles == 0) result_.zero_();
  if (tiles < 2) return;
  at::DimVector sizes{tiles};
  sizes.append(result.sizes().begin(), result.sizes().end());
  buffers_ = at::empty(sizes, result.options());
}

at::Tensor PartialSums::partial(int64_t tile) const {
  if (!buffers_.defined()) return result_;
  return geometry(buffers_, result_.sizes(), result_.strides(), tile * result_.numel());
}

void PartialSums::finish() {
  if (buffers_.defined()) at::sum_out(result_, buffers_, at::IntArrayRef{0});
}

at::Tensor new_like(const at::Tensor& tensor, at::ScalarType dtype) {
  if (tensor.is_non_overlapping_and_dense()) {
    return empty_strided(tensor.sizes(), tensor.strides(), dtype, tensor.device());
  }
  return empty_strided(tensor.sizes(), at::infer_dense_strides(tensor.sizes(), tensor.strides()),
                       dtype, tensor.device());
}

at::Tensor new_like(const at::Tensor& tensor, at::MemoryFormat format) {
  return empty(tensor.sizes(), tensor.scalar_type(), tensor.device(), format);
}

}  // namespace neuron::glue
