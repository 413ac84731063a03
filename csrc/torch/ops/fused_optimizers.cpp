// SPDX-License-Identifier: Apache-2.0
//
// Fused optimizer steps and the gradient scaler's operators: ATen's CPU kernels over pieces of the
// parameter lists, one record a step.
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale_cpu_dispatch.h>
#include <ATen/ops/_amp_update_scale_cpu_dispatch.h>
#include <ATen/ops/_fused_adam_native.h>
#include <ATen/ops/_fused_adamw_native.h>
#include <ATen/ops/_fused_sgd_native.h>
#include <torch/library.h>

#include <algorithm>

#include "torch/op_call.h"
#include "torch/ops/list_tiles.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;
using at::TensorList;
using OptionalTensor = std::optional<Tensor>;

void check_lengths(const char* name, TensorList self, std::initializer_list<TensorList> others) {
  for (const TensorList& other : others) {
    TORCH_CHECK(other.empty() || other.size() == self.size(), name,
                ": the lists must have the same length, got ", self.size(), " and ", other.size());
  }
}

// The kernels index all lists of one parameter alike.
void check_geometry(const char* name, TensorList self, std::initializer_list<TensorList> others) {
  for (const TensorList& other : others) {
    for (size_t i = 0; i < other.size(); ++i) {
      TORCH_CHECK(other[i].sizes() == self[i].sizes() && other[i].strides() == self[i].strides() &&
                      self[i].is_non_overlapping_and_dense(),
                  name, ": parameters, gradients and states must have the same sizes and dense ",
                  "strides; got ", self[i].sizes(), " with strides ", self[i].strides(), " and ",
                  other[i].sizes(), " with strides ", other[i].strides());
    }
  }
}

// ---- Adam ----------------------------------------------------------------------------------------

struct Adam {
  double beta1, beta2, weight_decay, eps;
  bool amsgrad, maximize;
};

template <auto kernel, typename Rate>
void run_adam(const Tensor* t, size_t n, const Rate& lr, const Adam& o, const OptionalTensor& scale,
              const OptionalTensor& found_inf) {
  std::vector<TensorList> lists;
  const size_t count = o.amsgrad ? 5 : 4;  // params, grads, averages, squares, maxima
  for (size_t i = 0; i < count; ++i) lists.emplace_back(t + i * n, n);
  const Tensor* steps = t + count * n;
  ListTiles(std::move(lists), 0b11111).run([&](const ListTiles::Tile& tile) {
    std::vector<Tensor> step;
    for (const size_t index : tile.indices) step.push_back(steps[index]);
    const auto& l = tile.lists;
    kernel(l[0], l[1], l[2], l[3], o.amsgrad ? TensorList(l[4]) : TensorList(), step, lr, o.beta1,
           o.beta2, o.weight_decay, o.eps, o.amsgrad, o.maximize, scale, found_inf);
  });
}

void adam_operands(OpCall& call, const char* name, TensorList self, TensorList grads,
                   TensorList exp_avgs, TensorList exp_avg_sqs, TensorList max_exp_avg_sqs,
                   TensorList steps, bool amsgrad, const OptionalTensor& grad_scale) {
  check_lengths(name, self, {max_exp_avg_sqs});
  for (const TensorList& list : {grads, exp_avgs, exp_avg_sqs, steps}) {
    TORCH_CHECK(list.size() == self.size(), name, ": the lists must have the same length, got ",
                self.size(), " and ", list.size());
  }
  check_geometry(name, self, {grads, exp_avgs, exp_avg_sqs});
  call.write(self);
  // With a scale the kernel stores the unscaled gradients.
  if (get(grad_scale).defined()) {
    call.write(grads);
  } else {
    call.read(grads);
  }
  call.write(exp_avgs);
  call.write(exp_avg_sqs);
  if (amsgrad) {
    check_geometry(name, self, {max_exp_avg_sqs});
    call.write(max_exp_avg_sqs);
  }
  call.read(steps);
  call.read(grad_scale);
}

using AdamRate = void (*)(TensorList, TensorList, TensorList, TensorList, TensorList, TensorList,
                          double, double, double, double, double, bool, bool,
                          const OptionalTensor&, const OptionalTensor&);
using AdamTensorRate = void (*)(TensorList, TensorList, TensorList, TensorList, TensorList,
                                TensorList, const Tensor&, double, double, double, double, bool,
                                bool, const OptionalTensor&, const OptionalTensor&);
constexpr AdamRate kAdam = &at::native::_fused_adam_kernel_cpu_;
constexpr AdamRate kAdamW = &at::native::_fused_adamw_kernel_cpu_;
constexpr AdamTensorRate kAdamTensor = &at::native::_fused_adam_kernel_cpu_;
constexpr AdamTensorRate kAdamWTensor = &at::native::_fused_adamw_kernel_cpu_;

template <AdamRate kernel>
void fused_adam(TensorList self, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                TensorList max_exp_avg_sqs, TensorList steps, double lr, double beta1, double beta2,
                double weight_decay, double eps, bool amsgrad, bool maximize,
                const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (self.empty()) return;
  const char* name = kernel == kAdam ? "aten::_fused_adam_" : "aten::_fused_adamw_";
  OpCall call(name);
  adam_operands(call, name, self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, amsgrad,
                grad_scale);
  call.read(found_inf);
  const Adam options{beta1, beta2, weight_decay, eps, amsgrad, maximize};
  call.record(Split::kNone, [n = self.size(), lr, options](const Tensor* t) {
    const Tensor* rest = t + (options.amsgrad ? 6 : 5) * n;
    run_adam<kernel>(t, n, lr, options, maybe(rest[0]), maybe(rest[1]));
  });
}

template <AdamTensorRate kernel>
void fused_adam_tensor(TensorList self, TensorList grads, TensorList exp_avgs,
                       TensorList exp_avg_sqs, TensorList max_exp_avg_sqs, TensorList steps,
                       const Tensor& lr, double beta1, double beta2, double weight_decay,
                       double eps, bool amsgrad, bool maximize, const OptionalTensor& grad_scale,
                       const OptionalTensor& found_inf) {
  if (self.empty()) return;
  const char* name = kernel == kAdamTensor ? "aten::_fused_adam_" : "aten::_fused_adamw_";
  OpCall call(name);
  adam_operands(call, name, self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, amsgrad,
                grad_scale);
  call.read(found_inf);
  call.read(lr);
  const Adam options{beta1, beta2, weight_decay, eps, amsgrad, maximize};
  call.record(Split::kNone, [n = self.size(), options](const Tensor* t) {
    const Tensor* rest = t + (options.amsgrad ? 6 : 5) * n;
    run_adam<kernel>(t, n, rest[2], options, maybe(rest[0]), maybe(rest[1]));
  });
}

// ---- SGD -----------------------------------------------------------------------------------------

struct Sgd {
  double weight_decay, momentum, dampening;
  bool nesterov, maximize, is_first_step;
};

template <typename Rate>
void run_sgd(const Tensor* t, size_t n, const Rate& lr, const Sgd& o, const OptionalTensor& scale,
             const OptionalTensor& found_inf) {
  const size_t count = o.momentum != 0.0 ? 3 : 2;
  std::vector<TensorList> lists;
  for (size_t i = 0; i < count; ++i) lists.emplace_back(t + i * n, n);
  ListTiles(std::move(lists), 0b111).run([&](const ListTiles::Tile& tile) {
    const auto& l = tile.lists;
    at::native::_fused_sgd_kernel_cpu_(l[0], l[1], count == 3 ? TensorList(l[2]) : TensorList(),
                                       o.weight_decay, o.momentum, lr, o.dampening, o.nesterov,
                                       o.maximize, o.is_first_step, scale, found_inf);
  });
}

void sgd_operands(OpCall& call, TensorList self, TensorList grads, TensorList momenta,
                  double momentum, const OptionalTensor& grad_scale) {
  const char* name = "aten::_fused_sgd_";
  TORCH_CHECK(grads.size() == self.size(), name, ": the lists must have the same length, got ",
              self.size(), " and ", grads.size());
  check_geometry(name, self, {grads});
  call.write(self);
  if (get(grad_scale).defined()) {
    call.write(grads);
  } else {
    call.read(grads);
  }
  if (momentum != 0.0) {
    TORCH_CHECK(momenta.size() == self.size(), name, ": expected a momentum buffer for each of ",
                self.size(), " parameters, got ", momenta.size());
    check_geometry(name, self, {momenta});
    call.write(momenta);
  }
  call.read(grad_scale);
}

void fused_sgd(TensorList self, TensorList grads, TensorList momenta, double weight_decay,
               double momentum, double lr, double dampening, bool nesterov, bool maximize,
               bool is_first_step, const OptionalTensor& grad_scale,
               const OptionalTensor& found_inf) {
  if (self.empty()) return;
  OpCall call("aten::_fused_sgd_");
  sgd_operands(call, self, grads, momenta, momentum, grad_scale);
  call.read(found_inf);
  const Sgd options{weight_decay, momentum, dampening, nesterov, maximize, is_first_step};
  call.record(Split::kNone, [n = self.size(), lr, options](const Tensor* t) {
    const Tensor* rest = t + (options.momentum != 0.0 ? 3 : 2) * n;
    run_sgd(t, n, lr, options, maybe(rest[0]), maybe(rest[1]));
  });
}

void fused_sgd_tensor(TensorList self, TensorList grads, TensorList momenta, double weight_decay,
                      double momentum, const Tensor& lr, double dampening, bool nesterov,
                      bool maximize, bool is_first_step, const OptionalTensor& grad_scale,
                      const OptionalTensor& found_inf) {
  if (self.empty()) return;
  OpCall call("aten::_fused_sgd_");
  sgd_operands(call, self, grads, momenta, momentum, grad_scale);
  call.read(found_inf);
  call.read(lr);
  const Sgd options{weight_decay, momentum, dampening, nesterov, maximize, is_first_step};
  call.record(Split::kNone, [n = self.size(), options](const Tensor* t) {
    const Tensor* rest = t + (options.momentum != 0.0 ? 3 : 2) * n;
    run_sgd(t, n, rest[2], options, maybe(rest[0]), maybe(rest[1]));
  });
}

// ---- gradient scaler -----------------------------------------------------------------------------

void unscale(TensorList self, Tensor& found_inf, const Tensor& inv_scale) {
  if (self.empty()) return;
  OpCall call("aten::_amp_foreach_non_finite_check_and_unscale_");
  call.write(self);
  call.write(found_inf);
  call.read(inv_scale);
  call.record(Split::kNone, [n = self.size()](const Tensor* t) {
    at::cpu::_amp_foreach_non_finite_check_and_unscale_(TensorList(t, n), out_of(t[n]), t[n + 1]);
  });
}

Tensor& update_scale(Tensor& self, Tensor& growth_tracker, const Tensor& found_inf,
                     double growth_factor, double backoff_factor, int64_t growth_interval) {
  OpCall call("aten::_amp_update_scale_");
  call.write(self);
  call.write(growth_tracker);
  call.read(found_inf);
  call.record(Split::kNone, [=](const Tensor* t) {
    at::cpu::_amp_update_scale_(out_of(t[0]), out_of(t[1]), t[2], growth_factor, backoff_factor,
                                growth_interval);
  });
  return self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_adam_", fused_adam<kAdam>);
  m.impl("_fused_adamw_", fused_adam<kAdamW>);
  m.impl("_fused_adam_.tensor_lr", fused_adam_tensor<kAdamTensor>);
  m.impl("_fused_adamw_.tensor_lr", fused_adam_tensor<kAdamWTensor>);
  m.impl("_fused_sgd_", fused_sgd);
  m.impl("_fused_sgd_.tensor_lr", fused_sgd_tensor);
  m.impl("_amp_foreach_non_finite_check_and_unscale_", unscale);
  m.impl("_amp_update_scale_", update_scale);
}

}  // namespace
}  // namespace neuron::glue
