// SPDX-License-Identifier: Apache-2.0
//
// index_put_: writes through index tensors. Everything is sized, so it is queued even for boolean
// masks. One call: duplicate indices have an order.
#include <ATen/core/List.h>
#include <ATen/ops/_index_put_impl_cpu_dispatch.h>
#include <torch/library.h>

#include "torch/op_call.h"
#include "torch/ops/tiles.h"

namespace neuron::glue {
namespace {

using at::Tensor;

// Index tensors may live on the host.
Tensor on_device(const Tensor& index, const c10::Device& device) {
  return !index.defined() || index.device() == device ? index : index.to(device);
}

Tensor& index_put_impl(Tensor& self, const c10::List<std::optional<Tensor>>& indices,
                       const Tensor& values, bool accumulate, bool unsafe) {
  TORCH_CHECK_INDEX(indices.size() <= static_cast<size_t>(self.dim()),
                    "too many indices for tensor of dimension ", self.dim(), " (got ",
                    indices.size(), ")");
  TORCH_CHECK(self.scalar_type() == values.scalar_type(),
              "Index put requires the source and destination dtypes match, got ",
              self.scalar_type(), " for the destination and ", values.scalar_type(),
              " for the source.");
  const size_t count = indices.size();
  OpCall call("aten::_index_put_impl_");
  call.write(self);
  call.read(self);
  call.read(values);
  for (size_t i = 0; i < count; ++i) {
    const std::optional<Tensor> index = indices.get(i);
    const Tensor& given = get(index);
    if (given.defined()) {
      const at::ScalarType dtype = given.scalar_type();
      TORCH_CHECK_INDEX(dtype == at::kLong || dtype == at::kInt || dtype == at::kBool ||
                            dtype == at::kByte,
                        "tensors used as indices must be long, int, byte or bool tensors");
    }
    call.read(on_device(given, self.device()));
  }
  call.record(Split::kNone, [=](const Tensor* t) {
    c10::List<std::optional<Tensor>> list;
    for (size_t i = 0; i < count; ++i) list.push_back(maybe(t[3 + i]));
    at::cpu::_index_put_impl_(out_of(t[0]), list, t[2], accumulate, unsafe);
  });
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_index_put_impl_", index_put_impl); }

}  // namespace
}  // namespace neuron::glue
