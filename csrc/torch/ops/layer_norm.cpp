// SPDX-License-Identifier: Apache-2.0
//
// Layer normalisation: lowered, else on ATen's CPU kernel, tiled over rows. The gradients of weight and bias are sums
// over tiles in a fixed order.
#include "torch/dispatch_stub.h"

#include <ATen/native/layer_norm.h>
#include <torch/library.h>

#include "torch/lowered_call.h"
#include "torch/op_call.h"
#include "torch/ops/norm_dtype.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Reads the tensors that are there; their mask, bit i = tensor i.
uint64_t read_present(LoweredCall& call, std::initializer_list<const Tensor*> tensors) {
  uint64_t mask = 0, bit = 1;
  for (const Tensor* t : tensors) {
    if (t->defined()) {
      call.read(*t);
      mask |= bit;
    }
    bit <<= 1;
  }
  return mask;
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm(const Tensor& input,
                                                     at::IntArrayRef normalized_shape,
                                                     const OptionalTensor& weight,
                                                     const OptionalTensor& bias, double eps) {
  const auto [rows, width] =
      at::native::_check_layer_norm_inputs(input, normalized_shape, get(weight), get(bias));
  const at::ScalarType dtype = statistics_type(input, get(weight), get(bias));
  at::DimVector statistics_shape(input.sizes().begin(),
                                 input.sizes().end() - static_cast<long>(normalized_shape.size()));
  statistics_shape.resize(static_cast<size_t>(input.dim()), 1);
  Tensor out = empty(input.sizes(), input.scalar_type(), input.device());
  Tensor mean = empty(statistics_shape, dtype, input.device());
  Tensor rstd = empty(statistics_shape, dtype, input.device());

  if (at::isFloatingType(input.scalar_type())) {
    LoweredCall lowered(LoweredOp::kLayerNorm);
    for (const Tensor* t : {&out, &mean, &rstd}) lowered.write(*t);
    const uint64_t present = read_present(lowered, {&input, &get(weight), &get(bias)});
    lowered.structural(static_cast<int64_t>(normalized_shape.size()));
    lowered.structural(static_cast<int64_t>(present));
    lowered.structural(0b111);
    lowered.value(eps);
    if (lowered.record()) return {std::move(out), std::move(mean), std::move(rstd)};
  }
  OpCall call("aten::native_layer_norm");
  call.write(out);
  call.write(mean);
  call.write(rstd);
  call.read(input);
  call.read(weight);
  call.read(bias);
  call.record(Split::kNone, [rows, width, eps](const Tensor* t) {
    const Tensor x = t[3].contiguous(), gamma = contiguous(t[4]), beta = contiguous(t[5]);
    for_tiles(rows, rows_per_tile(rows, width), [&](int64_t, int64_t begin, int64_t count) {
      Tensor y = rows_of(t[0], begin, count, width);
      Tensor m = span_of(t[1], begin, count), r = span_of(t[2], begin, count);
      at::native::LayerNormKernel(c10::kCPU, rows_of(x, begin, count, width), gamma, beta, count,
                                  width, eps, &y, &m, &r);
    });
  });
  return {std::move(out), std::move(mean), std::move(rstd)};
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_backward(
    const Tensor& grad_out, const Tensor& input, at::IntArrayRef normalized_shape,
    const Tensor& mean, const Tensor& rstd, const OptionalTensor& weight,
    const OptionalTensor& bias, std::array<bool, 3> wanted) {
  const auto [rows, width] =
      at::native::_check_layer_norm_inputs(input, normalized_shape, get(weight), get(bias));
  const c10::Device device = input.device();
  const auto like_parameter = [&](const OptionalTensor& parameter) {
    const at::ScalarType dtype = get(parameter).defined() ? parameter->scalar_type()
                                 : get(weight).defined()  ? weight->scalar_type()
                                                          : input.scalar_type();
    return empty(normalized_shape, dtype, device);
  };
  Tensor dx, dgamma, dbeta;
  if (wanted[0]) dx = empty(input.sizes(), input.scalar_type(), device);
  if (wanted[1]) dgamma = like_parameter(weight);
  if (wanted[2]) dbeta = like_parameter(bias);

  if (at::isFloatingType(input.scalar_type()) && (wanted[0] || wanted[1] || wanted[2])) {
    LoweredCall lowered(LoweredOp::kLayerNormBackward);
    int64_t outputs = 0;
    for (int64_t i = 0; const Tensor* t : {&dx, &dgamma, &dbeta}) {
      if (t->defined()) lowered.write(*t);
      outputs |= static_cast<int64_t>(t->defined()) << i++;
    }
    const uint64_t present =
        read_present(lowered, {&grad_out, &input, &mean, &rstd, &get(weight)});
    lowered.structural(static_cast<int64_t>(normalized_shape.size()));
    lowered.structural(static_cast<int64_t>(present));
    lowered.structural(outputs);
    if (lowered.record()) return {std::move(dx), std::move(dgamma), std::move(dbeta)};
  }
  OpCall call("aten::native_layer_norm_backward");
  call.write(dx);
  call.write(dgamma);
  call.write(dbeta);
  call.read(grad_out);
  call.read(input);
  call.read(mean);
  call.read(rstd);
  call.read(weight);
  call.record(Split::kNone, [rows, width](const Tensor* t) {
    const Tensor dy = t[3].contiguous(), x = t[4].contiguous(), gamma = contiguous(t[7]);
    const Tensor m = t[5].contiguous(), r = t[6].contiguous();
    const int64_t step = rows_per_tile(rows, width);
    PartialSums dgamma(t[1], tile_count(rows, step)), dbeta(t[2], tile_count(rows, step));
    for_tiles(rows, step, [&](int64_t tile, int64_t begin, int64_t count) {
      Tensor dx = rows_of(t[0], begin, count, width);
      Tensor dg = dgamma.partial(tile), db = dbeta.partial(tile);
      at::native::LayerNormBackwardKernel(
          c10::kCPU, rows_of(dy, begin, count, width), rows_of(x, begin, count, width),
          span_of(m, begin, count), span_of(r, begin, count), gamma, count, width, &dx, &dg, &db);
    });
    dgamma.finish();
    dbeta.finish();
  });
  return {std::move(dx), std::move(dgamma), std::move(dbeta)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_layer_norm", native_layer_norm);
  m.impl("native_layer_norm_backward", native_layer_norm_backward);
}

}  // namespace
}  // namespace neuron::glue
