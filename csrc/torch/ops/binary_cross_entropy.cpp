// SPDX-License-Identifier: Apache-2.0
//
// Binary cross entropy of probabilities, forward and backward.
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/binary_cross_entropy_backward_cpu_dispatch.h>
#include <ATen/ops/binary_cross_entropy_cpu_dispatch.h>
#include <torch/library.h>

#include "torch/op_call.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor binary_cross_entropy(const Tensor& self, const Tensor& target, const OptionalTensor& weight,
                            int64_t reduction) {
  const bool elementwise = reduction == at::Reduction::None;
  Tensor out = elementwise ? new_like(self) : empty({}, self.scalar_type(), self.device());
  OpCall call("aten::binary_cross_entropy");
  call.write(out);
  call.read(self);
  call.read(target);
  call.read(weight);
  call.record(elementwise ? Split::kPointwise : Split::kNone, [reduction](const Tensor* t) {
    t[0].copy_(at::cpu::binary_cross_entropy(t[1], t[2], maybe(t[3]), reduction));
  });
  return out;
}

Tensor binary_cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                     const OptionalTensor& weight, int64_t reduction) {
  Tensor out = new_like(self);
  OpCall call("aten::binary_cross_entropy_backward");
  call.write(out);
  call.read(grad);
  call.read(self);
  call.read(target);
  call.read(weight);
  const bool divides = reduction == at::Reduction::Mean;
  call.record(divides ? Split::kNone : Split::kPointwise, [reduction](const Tensor* t) {
    t[0].copy_(
        at::cpu::binary_cross_entropy_backward(t[1], t[2], t[3], maybe(t[4]), reduction));
  });
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("binary_cross_entropy", binary_cross_entropy);
  m.impl("binary_cross_entropy_backward", binary_cross_entropy_backward);
}

}  // namespace
}  // namespace neuron::glue
