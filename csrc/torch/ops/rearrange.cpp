// SPDX-License-Identifier: Apache-2.0
//
// Operators that move elements or resample images and that PyTorch does not describe as structured.
// Slices along the leading dimension are independent in all of them but flip and roll.
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/GridSamplerUtils.h>
#include <ATen/native/im2col_shape_check.h>
#include <ATen/ops/_weight_norm_interface_backward_cpu_dispatch.h>
#include <ATen/ops/_weight_norm_interface_cpu_dispatch.h>
#include <ATen/ops/col2im_cpu_dispatch.h>
#include <ATen/ops/flip_cpu_dispatch.h>
#include <ATen/ops/grid_sampler_2d_backward_cpu_dispatch.h>
#include <ATen/ops/grid_sampler_2d_cpu_dispatch.h>
#include <ATen/ops/im2col_cpu_dispatch.h>
#include <ATen/ops/roll_cpu_dispatch.h>
#include <torch/library.h>

#include "torch/op_call.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::IntArrayRef;
using at::Tensor;

// Calls `body(begin, count)` for tiles of the batch of a batched operand.
template <typename Body>
void for_batch(const Tensor& cost, const Body& body) {
  const int64_t batch = cost.size(0);
  if (batch == 0) return;
  for_tiles(batch, rows_per_tile(batch, cost.numel() / batch),
            [&](int64_t, int64_t begin, int64_t count) { body(begin, count); });
}

// ---- flip and roll -------------------------------------------------------------------------------

Tensor flip(const Tensor& self, IntArrayRef dims) {
  at::dim_list_to_bitset(dims, self.dim());  // raises for bad or repeated dimensions
  Tensor out = new_like(self, self.suggest_memory_format());
  OpCall call("aten::flip");
  call.write(out);
  call.read(self);
  call.record(Split::kNone, [dims = at::DimVector(dims)](const Tensor* t) {
    t[0].copy_(at::cpu::flip(t[1], dims));
  });
  return out;
}

Tensor roll(const Tensor& self, IntArrayRef shifts, IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  TORCH_CHECK(dims.size() == shifts.size() || (dims.empty() && shifts.size() == 1),
              "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  for (const int64_t dim : dims) at::maybe_wrap_dim(dim, self.dim());
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device());
  OpCall call("aten::roll");
  call.write(out);
  call.read(self);
  call.record(Split::kNone,
              [shifts = at::DimVector(shifts), dims = at::DimVector(dims)](const Tensor* t) {
                t[0].copy_(at::cpu::roll(t[1], shifts, dims));
              });
  return out;
}

// ---- sliding blocks of images: im2col and col2im -------------------------------------------------

struct Blocks {
  at::DimVector kernel, dilation, padding, stride;
};

void check_pairs(std::initializer_list<IntArrayRef> lists) {
  for (const IntArrayRef& list : lists) {
    TORCH_CHECK(list.size() == 2, "kernel_size, dilation, padding and stride must have 2 elements");
  }
}

int64_t block_count(int64_t extent, const Blocks& b, size_t i) {
  return (extent + 2 * b.padding[i] - (b.dilation[i] * (b.kernel[i] - 1) + 1)) / b.stride[i] + 1;
}

Tensor im2col(const Tensor& self, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
              IntArrayRef stride) {
  check_pairs({kernel, dilation, padding, stride});
  Blocks b{at::DimVector(kernel), at::DimVector(dilation), at::DimVector(padding),
           at::DimVector(stride)};
  at::native::im2col_shape_check(self, Tensor(), kernel[0], kernel[1], dilation[0], dilation[1],
                                 padding[0], padding[1], stride[0], stride[1]);
  at::DimVector sizes(self.sizes().begin(), self.sizes().end() - 3);
  sizes.push_back(self.size(-3) * kernel[0] * kernel[1]);
  sizes.push_back(block_count(self.size(-2), b, 0) * block_count(self.size(-1), b, 1));
  Tensor out = empty(sizes, self.scalar_type(), self.device());
  OpCall call("aten::im2col");
  call.write(out);
  call.read(self);
  call.record(Split::kNone, [b = std::move(b)](const Tensor* t) {
    const auto run = [&](const Tensor& out, const Tensor& self) {
      at::cpu::im2col_outf(self, b.kernel, b.dilation, b.padding, b.stride, out_of(out));
    };
    if (t[1].dim() == 3) return run(t[0], t[1]);
    for_batch(t[0], [&](int64_t begin, int64_t count) {
      run(batch_of(t[0], begin, count), batch_of(t[1], begin, count));
    });
  });
  return out;
}

Tensor col2im(const Tensor& self, IntArrayRef output_size, IntArrayRef kernel, IntArrayRef dilation,
              IntArrayRef padding, IntArrayRef stride) {
  check_pairs({output_size, kernel, dilation, padding, stride});
  Blocks b{at::DimVector(kernel), at::DimVector(dilation), at::DimVector(padding),
           at::DimVector(stride)};
  at::native::col2im_shape_check(self, Tensor(), output_size[0], output_size[1], kernel[0],
                                 kernel[1], dilation[0], dilation[1], padding[0], padding[1],
                                 stride[0], stride[1]);
  at::DimVector sizes(self.sizes().begin(), self.sizes().end() - 2);
  sizes.push_back(self.size(-2) / (kernel[0] * kernel[1]));
  sizes.append(output_size.begin(), output_size.end());
  Tensor out = empty(sizes, self.scalar_type(), self.device());
  OpCall call("aten::col2im");
  call.write(out);
  call.read(self);
  call.record(Split::kNone,
              [b = std::move(b), size = at::DimVector(output_size)](const Tensor* t) {
                const auto run = [&](const Tensor& out, const Tensor& self) {
                  at::cpu::col2im_outf(self, size, b.kernel, b.dilation, b.padding, b.stride,
                                       out_of(out));
                };
                if (t[1].dim() == 2) return run(t[0], t[1]);
                for_batch(t[1], [&](int64_t begin, int64_t count) {
                  run(batch_of(t[0], begin, count), batch_of(t[1], begin, count));
                });
              });
  return out;
}

// ---- grid sampling -------------------------------------------------------------------------------

Tensor grid_sampler_2d(const Tensor& input, const Tensor& grid, int64_t interpolation,
                       int64_t padding, bool align_corners) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_2d(input, grid);
  Tensor out = empty({input.size(0), input.size(1), grid.size(1), grid.size(2)},
                     input.scalar_type(), input.device());
  OpCall call("aten::grid_sampler_2d");
  call.write(out);
  call.read(input);
  call.read(grid);
  call.record(Split::kNone, [=](const Tensor* t) {
    for_batch(t[0], [&](int64_t begin, int64_t count) {
      batch_of(t[0], begin, count)
          .copy_(at::cpu::grid_sampler_2d(batch_of(t[1], begin, count), batch_of(t[2], begin, count),
                                          interpolation, padding, align_corners));
    });
  });
  return out;
}

std::tuple<Tensor, Tensor> grid_sampler_2d_backward(const Tensor& grad, const Tensor& input,
                                                    const Tensor& grid, int64_t interpolation,
                                                    int64_t padding, bool align_corners,
                                                    std::array<bool, 2> wanted) {
  at::native::check_grid_sampler_common(input, grid);
  at::native::check_grid_sampler_2d(input, grid);
  Tensor grad_input;
  if (wanted[0]) grad_input = empty(input.sizes(), input.scalar_type(), input.device());
  Tensor grad_grid = empty(grid.sizes(), grid.scalar_type(), grid.device());
  OpCall call("aten::grid_sampler_2d_backward");
  call.write(grad_grid);
  call.write(grad_input);
  call.read(grad);
  call.read(input);
  call.read(grid);
  call.record(Split::kNone, [=](const Tensor* t) {
    for_batch(t[3], [&](int64_t begin, int64_t count) {
      const auto [gi, gg] = at::cpu::grid_sampler_2d_backward(
          batch_of(t[2], begin, count), batch_of(t[3], begin, count), batch_of(t[4], begin, count),
          interpolation, padding, align_corners, wanted);
      batch_of(t[0], begin, count).copy_(gg);
      if (wanted[0]) batch_of(t[1], begin, count).copy_(gi);
    });
  });
  return {std::move(grad_input), std::move(grad_grid)};
}

// ---- weight normalisation ------------------------------------------------------------------------

std::tuple<Tensor, Tensor> weight_norm(const Tensor& v, const Tensor& g, int64_t dim) {
  TORCH_CHECK(dim == 0 || dim == v.dim() - 1, "fused kernels can only be applied for first or ",
              "last dim");
  Tensor weight = empty(v.sizes(), v.scalar_type(), v.device());
  // ATen keeps the norms of bfloat16 weights in float.
  const at::ScalarType norm_type =
      v.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
  Tensor norms = empty(g.sizes(), norm_type, v.device());
  OpCall call("aten::_weight_norm_interface");
  call.write(weight);
  call.write(norms);
  call.read(v);
  call.read(g);
  call.record(Split::kNone, [dim](const Tensor* t) {
    const auto [weight, norms] =
        at::cpu::_weight_norm_interface(t[2].contiguous(), t[3].contiguous(), dim);
    t[0].copy_(weight);
    t[1].copy_(norms);
  });
  return {std::move(weight), std::move(norms)};
}

std::tuple<Tensor, Tensor> weight_norm_backward(const Tensor& grad, const Tensor& v,
                                                const Tensor& g, const Tensor& norms, int64_t dim) {
  Tensor grad_v = empty(v.sizes(), v.scalar_type(), v.device());
  Tensor grad_g = empty(g.sizes(), g.scalar_type(), g.device());
  OpCall call("aten::_weight_norm_interface_backward");
  call.write(grad_v);
  call.write(grad_g);
  call.read(grad);
  call.read(v);
  call.read(g);
  call.read(norms);
  call.record(Split::kNone, [dim](const Tensor* t) {
    const auto [grad_v, grad_g] = at::cpu::_weight_norm_interface_backward(
        t[2].contiguous(), t[3].contiguous(), t[4].contiguous(), t[5].contiguous(), dim);
    t[0].copy_(grad_v);
    t[1].copy_(grad_g);
  });
  return {std::move(grad_v), std::move(grad_g)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("flip", flip);
  m.impl("roll", roll);
  m.impl("im2col", im2col);
  m.impl("col2im", col2im);
  m.impl("grid_sampler_2d", grid_sampler_2d);
  m.impl("grid_sampler_2d_backward", grid_sampler_2d_backward);
  m.impl("_weight_norm_interface", weight_norm);
  m.impl("_weight_norm_interface_backward", weight_norm_backward);
}

}  // namespace
}  // namespace neuron::glue
