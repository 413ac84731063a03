// SPDX-License-Identifier: Apache-2.0
//
// Losses that PyTorch does not describe as structured. A mean divides by the number of elements, so
// only unreduced forms (and sums of gradients) are cut into tiles.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/huber_loss_backward_cpu_dispatch.h>
#include <ATen/ops/huber_loss_cpu_dispatch.h>
#include <ATen/ops/mse_loss_backward_cpu_dispatch.h>
#include <ATen/ops/nll_loss2d_backward_cpu_dispatch.h>
#include <ATen/ops/nll_loss2d_forward_cpu_dispatch.h>
#include <ATen/ops/smooth_l1_loss_backward_cpu_dispatch.h>
#include <torch/library.h>

#include "torch/lowered_call.h"
#include "torch/ops/pointwise.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Split gradient_split(int64_t reduction) {
  return reduction == at::Reduction::Mean ? Split::kNone : Split::kPointwise;
}

// ---- squared, absolute ---------------------------------------------------------------------------

Tensor mse_loss_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                         int64_t reduction) {
  Tensor out = broadcast_output(self.scalar_type(), self.device(), {self, target, grad});
  const double factor =
      reduction == at::Reduction::Mean ? 2.0 / static_cast<double>(self.numel()) : 2.0;
  if (pointwise(LoweredOp::kMseLossBackward, self.scalar_type(), out,
                {grad, self, target, factor})) {
    return out;
  }
  record_pointwise(
      "aten::mse_loss_backward", out, {grad, self, target},
      [reduction](const Tensor* t) {
        at::cpu::mse_loss_backward_outf(t[1], t[2], t[3], reduction, out_of(t[0]));
      },
      gradient_split(reduction));
  return out;
}

Tensor& smooth_l1_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target,
                                    int64_t reduction, double beta, Tensor& out) {
  at::native::resize_output(
      out, at::infer_size_dimvector(at::infer_size_dimvector(self.sizes(), target.sizes()),
                                    grad.sizes()));
  record_pointwise(
      "aten::smooth_l1_loss_backward", out, {grad, self, target},
      [=](const Tensor* t) {
        at::cpu::smooth_l1_loss_backward_outf(t[1], t[2], t[3], reduction, beta, out_of(t[0]));
      },
      gradient_split(reduction));
  return out;
}

Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double delta) {
  TORCH_CHECK(delta > 0, "huber_loss does not support non-positive values for delta.");
  const bool elementwise = reduction == at::Reduction::None;
  const Tensor full = broadcast_output(self.scalar_type(), self.device(), {self, target});
  Tensor out = elementwise ? full : empty({}, self.scalar_type(), self.device());
  record_pointwise(
      "aten::huber_loss", out, {self, target},
      [=](const Tensor* t) { t[0].copy_(at::cpu::huber_loss(t[1], t[2], reduction, delta)); },
      elementwise ? Split::kPointwise : Split::kNone);
  return out;
}

Tensor& huber_loss_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target,
                                int64_t reduction, double delta, Tensor& out) {
  at::native::resize_output(
      out, at::infer_size_dimvector(at::infer_size_dimvector(self.sizes(), target.sizes()),
                                    grad.sizes()));
  record_pointwise(
      "aten::huber_loss_backward", out, {grad, self, target},
      [=](const Tensor* t) {
        at::cpu::huber_loss_backward_outf(t[1], t[2], t[3], reduction, delta, out_of(t[0]));
      },
      gradient_split(reduction));
  return out;
}

// ---- negative log likelihood over images: target [batch, height, width] --------------------------

std::tuple<Tensor, Tensor> nll_loss2d_forward(const Tensor& self, const Tensor& target,
                                              const OptionalTensor& weight, int64_t reduction,
                                              int64_t ignore_index) {
  TORCH_CHECK(target.dim() == 3, "only batches of spatial targets supported (3D tensors), but got ",
              "targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4, "only batches of spatial inputs supported (4D tensors), but got ",
              "input of dimension: ", self.dim());
  Tensor out = reduction == at::Reduction::None
                   ? empty(target.sizes(), self.scalar_type(), self.device())
                   : empty({}, self.scalar_type(), self.device());
  Tensor total_weight = empty({}, self.scalar_type(), self.device());
  OpCall call("aten::nll_loss2d_forward");
  call.write(out);
  call.write(total_weight);
  call.read(self);
  call.read(target);
  call.read(weight);
  call.record(Split::kNone, [=](const Tensor* t) {
    const auto [loss, total] = at::cpu::nll_loss2d_forward(t[2], t[3], maybe(t[4]), reduction,
                                                           ignore_index);
    t[0].copy_(loss);
    t[1].copy_(total);
  });
  return {std::move(out), std::move(total_weight)};
}

Tensor nll_loss2d_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                           const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                           const Tensor& total_weight) {
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device());
  OpCall call("aten::nll_loss2d_backward");
  call.write(out);
  call.read(grad);
  call.read(self);
  call.read(target);
  call.read(weight);
  call.read(total_weight);
  call.record(Split::kNone, [=](const Tensor* t) {
    // The kernel writes the targets' entries only.
    t[0].zero_();
    at::cpu::nll_loss2d_backward_outf(t[1], t[2], t[3], maybe(t[4]), reduction, ignore_index, t[5],
                                      out_of(t[0]));
  });
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("mse_loss_backward", mse_loss_backward);
  m.impl("smooth_l1_loss_backward.grad_input", smooth_l1_loss_backward_out);
  m.impl("huber_loss", huber_loss);
  m.impl("huber_loss_backward.out", huber_loss_backward_out);
  m.impl("nll_loss2d_forward", nll_loss2d_forward);
  m.impl("nll_loss2d_backward", nll_loss2d_backward);
}

}  // namespace
}  // namespace neuron::glue
