// SPDX-License-Identifier: Apache-2.0
//
// Activations that PyTorch does not describe as structured, forward and backward.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_prelu_kernel_backward_cpu_dispatch.h>
#include <ATen/ops/_prelu_kernel_cpu_dispatch.h>
#include <ATen/ops/clamp_min_cpu_dispatch.h>
#include <ATen/ops/glu_backward_cpu_dispatch.h>
#include <ATen/ops/hardswish_backward_cpu_dispatch.h>
#include <ATen/ops/hardswish_cpu_dispatch.h>
#include <ATen/ops/hardtanh_backward_cpu_dispatch.h>
#include <ATen/ops/hardtanh_cpu_dispatch.h>
#include <ATen/ops/log_sigmoid_backward_cpu_dispatch.h>
#include <ATen/ops/log_sigmoid_forward_cpu_dispatch.h>
#include <ATen/ops/mish_backward_cpu_dispatch.h>
#include <ATen/ops/native_dropout_backward_cpu_dispatch.h>
#include <torch/library.h>

#include "torch/lowered_call.h"
#include "torch/ops/pointwise.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Scalar;
using at::Tensor;

// ---- relu, hardtanh, hardswish -------------------------------------------------------------------

void record_relu(const Tensor& out, const Tensor& self) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Boolean inputs not supported for relu");
  if (pointwise(LoweredOp::kRelu, self.scalar_type(), out, {self})) return;
  record_pointwise("aten::relu", out, {self},
                   [](const Tensor* t) { at::cpu::clamp_min_outf(t[1], 0, out_of(t[0])); });
}

Tensor relu(const Tensor& self) {
  Tensor out = new_like(self);
  record_relu(out, self);
  return out;
}

Tensor& relu_inplace(Tensor& self) {
  record_relu(self, self);
  return self;
}

void record_hardtanh(const Tensor& out, const Tensor& self, const Scalar& low, const Scalar& high) {
  TORCH_CHECK(self.scalar_type() != at::kBool, "Bool inputs not supported for hardtanh");
  TORCH_CHECK(self.scalar_type() != at::kByte || (low.toDouble() >= 0 && high.toDouble() >= 0),
              "cannot do hardtanh on an unsigned type with negative limits");
  TORCH_CHECK(low.toDouble() <= high.toDouble(), "max_val should be greater than or equal to ",
              "min_val, got min_val = ", low, " and max_val = ", high);
  if (pointwise(LoweredOp::kHardtanh, self.scalar_type(), out, {self, low, high})) return;
  record_pointwise("aten::hardtanh", out, {self}, [low, high](const Tensor* t) {
    at::cpu::hardtanh_outf(t[1], low, high, out_of(t[0]));
  });
}

Tensor hardtanh(const Tensor& self, const Scalar& low, const Scalar& high) {
  Tensor out = new_like(self);
  record_hardtanh(out, self, low, high);
  return out;
}

Tensor& hardtanh_out(const Tensor& self, const Scalar& low, const Scalar& high, Tensor& out) {
  at::native::resize_output(out, self.sizes());
  record_hardtanh(out, self, low, high);
  return out;
}

Tensor& hardtanh_inplace(Tensor& self, const Scalar& low, const Scalar& high) {
  record_hardtanh(self, self, low, high);
  return self;
}

Tensor hardtanh_backward(const Tensor& grad, const Tensor& self, const Scalar& low,
                         const Scalar& high) {
  Tensor out = broadcast_output(self.scalar_type(), self.device(), {grad, self});
  if (pointwise(LoweredOp::kHardtanhBackward, self.scalar_type(), out, {grad, self, low, high})) {
    return out;
  }
  record_pointwise("aten::hardtanh_backward", out, {grad, self}, [low, high](const Tensor* t) {
    at::cpu::hardtanh_backward_outf(t[1], t[2], low, high, out_of(t[0]));
  });
  return out;
}

void record_hardswish(const Tensor& out, const Tensor& self) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "\"hardswish_cpu\" not implemented for '",
              c10::toString(self.scalar_type()), "'");
  if (pointwise(LoweredOp::kHardswish, self.scalar_type(), out, {self})) return;
  record_pointwise("aten::hardswish", out, {self},
                   [](const Tensor* t) { at::cpu::hardswish_outf(t[1], out_of(t[0])); });
}

Tensor hardswish(const Tensor& self) {
  Tensor out = new_like(self);
  record_hardswish(out, self);
  return out;
}

Tensor& hardswish_out(const Tensor& self, Tensor& out) {
  at::native::resize_output(out, self.sizes());
  record_hardswish(out, self);
  return out;
}

Tensor& hardswish_inplace(Tensor& self) {
  record_hardswish(self, self);
  return self;
}

// ---- backward kernels that exist in functional form only ------------------------------------------

using Backward = Tensor (*)(const Tensor&, const Tensor&);

template <const char* name, LoweredOp op, Backward kernel>
Tensor binary_backward(const Tensor& grad, const Tensor& self) {
  Tensor out = broadcast_output(self.scalar_type(), self.device(), {grad, self});
  if (pointwise(op, self.scalar_type(), out, {grad, self})) return out;
  record_pointwise(name, out, {grad, self},
                   [](const Tensor* t) { t[0].copy_(kernel(t[1], t[2])); });
  return out;
}
constexpr char kHardswishBackward[] = "aten::hardswish_backward";
constexpr char kMishBackward[] = "aten::mish_backward";

Tensor dropout_backward(const Tensor& grad, const Tensor& mask, double scale) {
  // Scaled by a floating-point number: integers become floating.
  const at::ScalarType dtype = at::isIntegralType(grad.scalar_type(), /*includeBool=*/true)
                                   ? c10::typeMetaToScalarType(at::get_default_dtype())
                                   : grad.scalar_type();
  Tensor out = broadcast_output(dtype, grad.device(), {grad, mask});
  record_pointwise("aten::native_dropout_backward", out, {grad, mask}, [scale](const Tensor* t) {
    t[0].copy_(at::cpu::native_dropout_backward(t[1], t[2], scale));
  });
  return out;
}

// ---- log sigmoid: the buffer keeps exp(-|x|) --------------------------------------------------------

std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self) {
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device());
  // The lowered backward computes exp(-|x|) again and needs no buffer, as on other accelerators.
  if (pointwise(LoweredOp::kLogSigmoid, self.scalar_type(), out, {self})) {
    return {std::move(out), empty({0}, self.scalar_type(), self.device())};
  }
  Tensor buffer = empty(self.sizes(), self.scalar_type(), self.device());
  OpCall call("aten::log_sigmoid_forward");
  call.write(out);
  call.write(buffer);
  call.read(self);
  call.record(Split::kPointwise, [](const Tensor* t) {
    // The kernel wants contiguous outputs; a tile of an inner dimension is not.
    if (t[0].is_contiguous()) {
      at::cpu::log_sigmoid_forward_outf(t[2], out_of(t[0]), out_of(t[1]));
    } else {
      const auto [out, buffer] = at::cpu::log_sigmoid_forward(t[2]);
      t[0].copy_(out);
      t[1].copy_(buffer);
    }
  });
  return {std::move(out), std::move(buffer)};
}

Tensor log_sigmoid_backward(const Tensor& grad, const Tensor& self, const Tensor& buffer) {
  Tensor out = broadcast_output(self.scalar_type(), self.device(), {grad, self});
  if (pointwise(LoweredOp::kLogSigmoidBackward, self.scalar_type(), out, {grad, self})) return out;
  record_pointwise("aten::log_sigmoid_backward", out, {grad, self, buffer}, [](const Tensor* t) {
    at::cpu::log_sigmoid_backward_outf(t[1], t[2], t[3], out_of(t[0]));
  });
  return out;
}

// ---- prelu: the weight arrives broadcast --------------------------------------------------------------

Tensor prelu(const Tensor& self, const Tensor& weight) {
  Tensor out = broadcast_output(self.scalar_type(), self.device(), {self, weight});
  record_pointwise("aten::_prelu_kernel", out, {self, weight},
                   [](const Tensor* t) { t[0].copy_(at::cpu::_prelu_kernel(t[1], t[2])); });
  return out;
}

std::tuple<Tensor, Tensor> prelu_backward(const Tensor& grad, const Tensor& self,
                                          const Tensor& weight) {
  Tensor grad_self = broadcast_output(self.scalar_type(), self.device(), {self, weight, grad});
  Tensor grad_weight = new_like(grad_self);
  OpCall call("aten::_prelu_kernel_backward");
  call.write(grad_self);
  call.write(grad_weight);
  call.read(grad);
  call.read(self);
  call.read(weight);
  call.record(Split::kPointwise, [](const Tensor* t) {
    const auto [grad_self, grad_weight] = at::cpu::_prelu_kernel_backward(t[2], t[3], t[4]);
    t[0].copy_(grad_self);
    t[1].copy_(grad_weight);
  });
  return {std::move(grad_self), std::move(grad_weight)};
}

// ---- gated linear unit: halves along `dim` ----------------------------------------------------------

Tensor glu_backward(const Tensor& grad, const Tensor& self, int64_t dim) {
  Tensor out = new_like(self, at::MemoryFormat::Contiguous);
  const int64_t wrapped = c10::maybe_wrap_dim(dim, self.dim());
  OpCall call("aten::glu_backward");
  call.write(out);
  call.read(grad);
  call.read(self);
  call.record(wrapped == 0 ? Split::kNone : Split::kRows, [wrapped](const Tensor* t) {
    at::cpu::glu_backward_outf(t[1], t[2], wrapped, out_of(t[0]));
  });
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("relu", relu);
  m.impl("relu_", relu_inplace);
  m.impl("hardtanh", hardtanh);
  m.impl("hardtanh.out", hardtanh_out);
  m.impl("hardtanh_", hardtanh_inplace);
  m.impl("hardtanh_backward", hardtanh_backward);
  m.impl("hardswish", hardswish);
  m.impl("hardswish.out", hardswish_out);
  m.impl("hardswish_", hardswish_inplace);
  m.impl("hardswish_backward",
         binary_backward<kHardswishBackward, LoweredOp::kHardswishBackward,
                         at::cpu::hardswish_backward>);
  m.impl("mish_backward", binary_backward<kMishBackward, LoweredOp::kMishBackward, at::cpu::mish_backward>);
  m.impl("native_dropout_backward", dropout_backward);
  m.impl("log_sigmoid_forward", log_sigmoid_forward);
  m.impl("log_sigmoid_backward", log_sigmoid_backward);
  m.impl("_prelu_kernel", prelu);
  m.impl("_prelu_kernel_backward", prelu_backward);
  m.impl("glu_backward", glu_backward);
}

}  // namespace
}  // namespace neuron::glue
