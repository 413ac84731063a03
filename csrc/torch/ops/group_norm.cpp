// SPDX-License-Identifier: Apache-2.0
//
// Group normalisation on ATen's CPU kernel, tiled over samples. The gradients of weight and bias are sums
// over tiles in a fixed order.
#include "torch/dispatch_stub.h"

#include <ATen/native/group_norm.h>
#include <torch/library.h>

#include "torch/op_call.h"
#include "torch/ops/norm_dtype.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

void check_group_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t c,
                      int64_t groups) {
  TORCH_CHECK(groups > 0, "Expected num groups to be greater than 0, got ", groups);
  TORCH_CHECK(c % groups == 0, "Expected number of channels in input to be divisible by ",
              "num_groups, but got input of shape ", input.sizes(), " and num_groups=", groups);
  for (const Tensor* parameter : {&weight, &bias}) {
    TORCH_CHECK(!parameter->defined() || (parameter->dim() == 1 && parameter->numel() == c),
                "Expected ", parameter == &weight ? "weight" : "bias", " to be a vector of size ",
                "equal to the number of channels in input, but got a parameter of shape ",
                parameter->sizes(), " and input of shape ", input.sizes());
  }
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm(const Tensor& input,
                                                     const OptionalTensor& weight,
                                                     const OptionalTensor& bias, int64_t n,
                                                     int64_t c, int64_t hxw, int64_t groups,
                                                     double eps) {
  check_group_norm(input, get(weight), get(bias), c, groups);
  const at::ScalarType dtype = statistics_type(input, get(weight), get(bias));
  const at::MemoryFormat format = input.suggest_memory_format();
  Tensor out = new_like(input, format);
  Tensor mean = empty({n, groups}, dtype, input.device());
  Tensor rstd = empty({n, groups}, dtype, input.device());

  OpCall call("aten::native_group_norm");
  call.write(out);
  call.write(mean);
  call.write(rstd);
  call.read(input);
  call.read(weight);
  call.read(bias);
  call.record(Split::kNone, [=](const Tensor* t) {
    const Tensor x = t[3].contiguous(format), gamma = contiguous(t[4]), beta = contiguous(t[5]);
    if (n == 0) return;
    for_tiles(n, rows_per_tile(n, c * hxw), [&](int64_t, int64_t begin, int64_t count) {
      Tensor y = batch_of(t[0], begin, count);
      Tensor m = batch_of(t[1], begin, count), r = batch_of(t[2], begin, count);
      at::native::GroupNormKernel(c10::kCPU, batch_of(x, begin, count), gamma, beta, count, c, hxw,
                                  groups, eps, y, m, r);
    });
  });
  return {std::move(out), std::move(mean), std::move(rstd)};
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm_backward(
    const Tensor& grad_out, const Tensor& input, const Tensor& mean, const Tensor& rstd,
    const OptionalTensor& weight, int64_t n, int64_t c, int64_t hxw, int64_t groups,
    std::array<bool, 3> wanted) {
  const at::MemoryFormat format = input.suggest_memory_format();
  const c10::Device device = input.device();
  const at::ScalarType parameter_type =
      get(weight).defined() ? weight->scalar_type() : mean.scalar_type();
  Tensor dx, dgamma, dbeta;
  if (wanted[0]) dx = new_like(input, format);
  if (wanted[1]) dgamma = empty({c}, parameter_type, device);
  if (wanted[2]) dbeta = empty({c}, parameter_type, device);

  OpCall call("aten::native_group_norm_backward");
  call.write(dx);
  call.write(dgamma);
  call.write(dbeta);
  call.read(grad_out);
  call.read(input);
  call.read(mean);
  call.read(rstd);
  call.read(weight);
  call.record(Split::kNone, [=](const Tensor* t) {
    const Tensor dy = t[3].contiguous(format), x = t[4].contiguous(format);
    const Tensor m = t[5].contiguous(), r = t[6].contiguous(), gamma = contiguous(t[7]);
    const int64_t step = rows_per_tile(n, c * hxw);
    PartialSums dgamma(t[1], tile_count(n, step)), dbeta(t[2], tile_count(n, step));
    for_tiles(n, step, [&](int64_t tile, int64_t begin, int64_t count) {
      if (count == 0) return;
      Tensor dx = batch_of(t[0], begin, count);
      Tensor dg = dgamma.partial(tile), db = dbeta.partial(tile);
      at::native::GroupNormBackwardKernel(c10::kCPU, batch_of(dy, begin, count),
                                          batch_of(x, begin, count), batch_of(m, begin, count),
                                          batch_of(r, begin, count), gamma, count, c, hxw, groups,
                                          dx, dg, db);
    });
    dgamma.finish();
    dbeta.finish();
  });
  return {std::move(dx), std::move(dgamma), std::move(dbeta)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_group_norm", native_group_norm);
  m.impl("native_group_norm_backward", native_group_norm_backward);
}

}  // namespace
}  // namespace neuron::glue
