// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation on ATen's CPU kernels. Channels are independent, so a contiguous input is
// tiled over channels; other layouts run as one call, which is what the kernels are fast for.
#include <ATen/ops/native_batch_norm_backward_cpu_dispatch.h>
#include <ATen/ops/native_batch_norm_cpu_dispatch.h>
#include <torch/library.h>

#include "torch/op_call.h"
#include "torch/ops/norm_dtype.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

void check_statistics(const Tensor& input, const Tensor& t, const char* name) {
  TORCH_CHECK(!t.defined() || t.numel() == input.size(1), name, " should contain ", input.size(1),
              " elements not ", t.defined() ? t.numel() : 0);
}

void check_input(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                 const OptionalTensor& mean, const OptionalTensor& variance, bool training) {
  TORCH_CHECK(input.dim() >= 2, "batch_norm expects an input of 2 or more dimensions, got ",
              input.dim());
  TORCH_CHECK(training || (get(mean).defined() && get(variance).defined()),
              "running_mean and running_var must be defined in evaluation mode");
  check_statistics(input, get(weight), "weight");
  check_statistics(input, get(bias), "bias");
  check_statistics(input, get(mean), "running_mean");
  check_statistics(input, get(variance), "running_var");
}

int64_t channels_per_tile(const Tensor& input) {
  const int64_t channels = input.size(1);
  if (channels == 0 || input.dim() < 3 || !input.is_contiguous()) return channels;
  return rows_per_tile(channels, input.numel() / channels);
}

Tensor channels_of(const Tensor& t, int64_t begin, int64_t count) {
  return slice(t, 1, begin, count).contiguous();
}

OptionalTensor part_of(const Tensor& t, int64_t begin, int64_t count) {
  return t.defined() ? OptionalTensor(slice(t, 0, begin, count)) : std::nullopt;
}

using Results = std::tuple<Tensor, Tensor, Tensor>;

Results forward(const char* name, const Tensor& input, const OptionalTensor& weight,
                const OptionalTensor& bias, const OptionalTensor& running_mean,
                const OptionalTensor& running_var, bool training, double momentum, double eps) {
  check_input(input, weight, bias, running_mean, running_var, training);
  const at::ScalarType dtype = at::native::param_scalar_type(
      input, at::native::is_mixed_type(input, get(weight), get(bias), get(running_mean),
                                       get(running_var)));
  const int64_t saved = training ? input.size(1) : 0;
  Tensor out = new_like(input, input.suggest_memory_format());
  Tensor mean = empty({saved}, dtype, input.device());
  Tensor invstd = empty({saved}, dtype, input.device());
  OpCall call(name);
  call.write(out);
  call.write(mean);
  call.write(invstd);
  call.read(input);
  call.read(weight);
  call.read(bias);
  call.read(running_mean);
  call.read(running_var);
  if (training && get(running_mean).defined()) call.write(*running_mean);
  if (training && get(running_var).defined()) call.write(*running_var);
  call.record(Split::kNone, [=](const Tensor* t) {
    // PyTorch's kernel for given outputs sums into what they hold when the input is neither dense
    // layout, so it never sees such an input.
    const bool dense = t[3].is_contiguous() || t[3].is_contiguous(at::MemoryFormat::ChannelsLast) ||
                       t[3].is_contiguous(at::MemoryFormat::ChannelsLast3d);
    const Tensor x = dense ? t[3] : t[3].contiguous();
    const int64_t channels = x.size(1), step = channels_per_tile(x);
    if (channels == 0 || step == channels) {
      at::cpu::native_batch_norm_outf(x, maybe(t[4]), maybe(t[5]), maybe(t[6]), maybe(t[7]),
                                      training, momentum, eps, out_of(t[0]), out_of(t[1]),
                                      out_of(t[2]));
      return;
    }
    for_tiles(channels, step, [&](int64_t, int64_t begin, int64_t count) {
      const auto [y, mean, invstd] = at::cpu::native_batch_norm(
          channels_of(x, begin, count), part_of(t[4], begin, count), part_of(t[5], begin, count),
          part_of(t[6], begin, count), part_of(t[7], begin, count), training, momentum, eps);
      slice(t[0], 1, begin, count).copy_(y);
      if (!training) return;
      slice(t[1], 0, begin, count).copy_(mean);
      slice(t[2], 0, begin, count).copy_(invstd);
    });
  });
  return {std::move(out), std::move(mean), std::move(invstd)};
}

Results native_batch_norm(const Tensor& input, const OptionalTensor& weight,
                          const OptionalTensor& bias, const OptionalTensor& running_mean,
                          const OptionalTensor& running_var, bool training, double momentum,
                          double eps) {
  return forward("aten::native_batch_norm", input, weight, bias, running_mean, running_var,
                 training, momentum, eps);
}

Results native_batch_norm_legit(const Tensor& input, const OptionalTensor& weight,
                                const OptionalTensor& bias, Tensor& running_mean,
                                Tensor& running_var, bool training, double momentum, double eps) {
  return forward("aten::_native_batch_norm_legit", input, weight, bias, running_mean, running_var,
                 training, momentum, eps);
}

Results native_batch_norm_no_stats(const Tensor& input, const OptionalTensor& weight,
                                   const OptionalTensor& bias, bool training, double momentum,
                                   double eps) {
  return forward("aten::_native_batch_norm_legit", input, weight, bias, std::nullopt, std::nullopt,
                 training, momentum, eps);
}

Results native_batch_norm_backward(const Tensor& grad_out, const Tensor& input,
                                   const OptionalTensor& weight, const OptionalTensor& running_mean,
                                   const OptionalTensor& running_var,
                                   const OptionalTensor& save_mean,
                                   const OptionalTensor& save_invstd, bool training, double eps,
                                   std::array<bool, 3> wanted) {
  const at::ScalarType dtype = at::native::param_scalar_type(
      input, at::native::is_mixed_type(input, get(weight), get(running_mean), get(running_var),
                                       get(save_mean), get(save_invstd)));
  Tensor grad_input, grad_weight, grad_bias;
  if (wanted[0]) grad_input = new_like(input, input.suggest_memory_format());
  if (wanted[1]) grad_weight = empty({input.size(1)}, dtype, input.device());
  if (wanted[2]) grad_bias = empty({input.size(1)}, dtype, input.device());
  OpCall call("aten::native_batch_norm_backward");
  call.write(grad_input);
  call.write(grad_weight);
  call.write(grad_bias);
  call.read(grad_out);
  call.read(input);
  call.read(weight);
  call.read(running_mean);
  call.read(running_var);
  call.read(save_mean);
  call.read(save_invstd);
  call.record(Split::kNone, [=](const Tensor* t) {
    const Tensor &dy = t[3], &x = t[4];
    const int64_t channels = x.size(1);
    const int64_t step = dy.is_contiguous() ? channels_per_tile(x) : channels;
    if (channels == 0) return;
    for_tiles(channels, step, [&](int64_t, int64_t begin, int64_t count) {
      const bool all = count == channels;
      // Evaluation keeps no statistics of the batch: those operands are empty.
      const auto part = [&](size_t i) {
        return !t[i].defined() || t[i].numel() == 0 ? maybe(t[i]) : part_of(t[i], begin, count);
      };
      const auto [dx, dweight, dbias] = at::cpu::native_batch_norm_backward(
          all ? dy : channels_of(dy, begin, count), all ? x : channels_of(x, begin, count), part(5),
          part(6), part(7), part(8), part(9), training, eps, wanted);
      if (wanted[0]) slice(t[0], 1, begin, count).copy_(dx);
      if (wanted[1]) slice(t[1], 0, begin, count).copy_(dweight);
      if (wanted[2]) slice(t[2], 0, begin, count).copy_(dbias);
    });
  });
  return {std::move(grad_input), std::move(grad_weight), std::move(grad_bias)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_batch_norm", native_batch_norm);
  m.impl("native_batch_norm_backward", native_batch_norm_backward);
  m.impl("_native_batch_norm_legit", native_batch_norm_legit);
  m.impl("_native_batch_norm_legit.no_stats", native_batch_norm_no_stats);
}

}  // namespace
}  // namespace neuron::glue
