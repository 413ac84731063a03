// SPDX-License-Identifier: Apache-2.0
//
// Convolution of any rank, transposed or not, on ATen's CPU convolution (oneDNN where it applies),
// tiled over the batch. Weight and bias gradients are sums over tiles in a fixed order.
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include "torch/op_call.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

struct Parameters {
  at::DimVector stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

Parameters parameters(at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                      bool transposed, at::IntArrayRef output_padding, int64_t groups) {
  return {at::DimVector(stride), at::DimVector(padding),        at::DimVector(dilation),
          at::DimVector(output_padding), transposed, groups};
}

std::vector<int64_t> output_size(const Tensor& input, const Tensor& weight, const Parameters& p) {
  if (!p.transposed) {
    return at::native::conv_output_size(input.sizes(), weight.sizes(), p.padding, p.stride,
                                        p.dilation);
  }
  return at::native::conv_input_size(input.sizes(), weight.sizes(), p.padding, p.output_padding,
                                     p.stride, p.dilation, p.groups);
}

at::MemoryFormat output_format(const Tensor& input, const Tensor& weight) {
  if (!at::native::mkldnn_conv_use_channels_last(input, weight)) {
    return at::MemoryFormat::Contiguous;
  }
  return input.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
}

// A convolution is a matrix product: samples of some million multiplications make a tile. A partial
// weight gradient per tile bounds the number of tiles of a backward pass.
constexpr int64_t kWorkPerTile = int64_t{1} << 22;
constexpr int64_t kBackwardTiles = 4;

int64_t samples_per_tile(const Tensor& out, const Tensor& weight) {
  if (out.size(0) == 0) return 1;
  const int64_t kernel = weight.numel() / std::max<int64_t>(1, weight.size(0));
  const int64_t work = std::max<int64_t>(1, out.numel() / out.size(0) * kernel);
  return std::max<int64_t>(1, kWorkPerTile / work);
}

Tensor convolution(const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                   at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                   bool transposed, at::IntArrayRef output_padding, int64_t groups) {
  Parameters p = parameters(stride, padding, dilation, transposed, output_padding, groups);
  Tensor out = empty(output_size(input, weight, p), input.scalar_type(), input.device(),
                     output_format(input, weight));
  OpCall call("aten::convolution_overrideable");
  call.write(out);
  call.read(input);
  call.read(weight);
  call.read(bias);
  call.record(Split::kNone, [p = std::move(p)](const Tensor* t) {
    for_tiles(t[0].size(0), samples_per_tile(t[0], t[2]),
              [&](int64_t, int64_t begin, int64_t count) {
                batch_of(t[0], begin, count)
                    .copy_(at::convolution(batch_of(t[1], begin, count), t[2], maybe(t[3]),
                                           p.stride, p.padding, p.dilation, p.transposed,
                                           p.output_padding, p.groups));
              });
  });
  return out;
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(
    const Tensor& grad_out, const Tensor& input, const Tensor& weight, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> wanted) {
  Parameters p = parameters(stride, padding, dilation, transposed, output_padding, groups);
  const at::MemoryFormat format = output_format(input, weight);
  Tensor grad_input, grad_weight, grad_bias;
  if (wanted[0]) grad_input = new_like(input, format);
  if (wanted[1]) grad_weight = empty(weight.sizes(), weight.scalar_type(), weight.device());
  if (wanted[2]) grad_bias = empty({grad_out.size(1)}, grad_out.scalar_type(), grad_out.device());

  OpCall call("aten::convolution_backward_overrideable");
  call.write(grad_input);
  call.write(grad_weight);
  call.write(grad_bias);
  call.read(grad_out);
  call.read(input);
  call.read(weight);
  call.record(Split::kNone, [p = std::move(p), wanted](const Tensor* t) {
    const int64_t batch = t[4].size(0);
    const int64_t step = std::max(samples_per_tile(t[3], t[5]), tile_count(batch, kBackwardTiles));
    PartialSums grad_weight(t[1], tile_count(batch, step));
    PartialSums grad_bias(t[2], tile_count(batch, step));
    const at::DimVector bias_sizes{t[3].size(1)};
    for_tiles(batch, step, [&](int64_t tile, int64_t begin, int64_t count) {
      if (count == 0) return;
      const auto [gi, gw, gb] = at::convolution_backward(
          batch_of(t[3], begin, count), batch_of(t[4], begin, count), t[5],
          at::OptionalIntArrayRef(bias_sizes), p.stride, p.padding, p.dilation, p.transposed,
          p.output_padding, p.groups, wanted);
      if (wanted[0]) batch_of(t[0], begin, count).copy_(gi);
      if (wanted[1]) grad_weight.partial(tile).copy_(gw);
      if (wanted[2]) grad_bias.partial(tile).copy_(gb);
    });
    grad_weight.finish();
    grad_bias.finish();
  });
  return {std::move(grad_input), std::move(grad_weight), std::move(grad_bias)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

}  // namespace
}  // namespace neuron::glue
