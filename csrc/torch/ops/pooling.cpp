// SPDX-License-Identifier: Apache-2.0
//
// Pooling and padding that PyTorch does not describe as structured, tiled over the leading dimension
// (batch, or channels of a single sample): its slices are independent.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_adaptive_avg_pool2d_backward_cpu_dispatch.h>
#include <ATen/ops/_adaptive_avg_pool3d_backward_cpu_dispatch.h>
#include <ATen/ops/adaptive_avg_pool2d_cpu_dispatch.h>
#include <ATen/ops/adaptive_avg_pool3d_cpu_dispatch.h>
#include <ATen/ops/reflection_pad2d_backward_cpu_dispatch.h>
#include <ATen/ops/reflection_pad2d_cpu_dispatch.h>
#include <ATen/ops/replication_pad2d_backward_cpu_dispatch.h>
#include <torch/library.h>

#include "torch/op_call.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::IntArrayRef;
using at::Tensor;

// `body` gets the operands cut along dimension 0 alike; operand `from` has the elements that cost.
template <typename Body>
void for_samples(const Tensor* t, size_t operands, size_t from, const Body& body) {
  const int64_t samples = t[0].size(0);
  if (samples == 0) return;
  for_tiles(samples, rows_per_tile(samples, t[from].numel() / samples),
            [&](int64_t, int64_t begin, int64_t count) {
              std::array<Tensor, 3> part;
              for (size_t i = 0; i < operands; ++i) part[i] = batch_of(t[i], begin, count);
              body(part.data());
            });
}

// ---- adaptive average pooling --------------------------------------------------------------------

Tensor adaptive_pool_output(const char* name, const Tensor& self, IntArrayRef output_size,
                            int64_t spatial) {
  TORCH_CHECK(static_cast<int64_t>(output_size.size()) == spatial, name, ": output_size must be ",
              spatial);
  TORCH_CHECK(self.dim() == spatial + 1 || self.dim() == spatial + 2, name, "(): Expected ",
              spatial + 1, "D or ", spatial + 2, "D tensor, but got ", self.sizes());
  at::DimVector sizes(self.sizes().begin(), self.sizes().end() - spatial);
  for (int64_t d = -spatial; d < 0; ++d) {
    TORCH_CHECK(self.size(d) > 0, name, "(): Expected input to have non-zero size for non-batch ",
                "dimensions, but input has sizes ", self.sizes());
    TORCH_CHECK(output_size[static_cast<size_t>(d + spatial)] >= 0, name,
                ": elements of output_size must be greater than or equal to 0");
  }
  sizes.append(output_size.begin(), output_size.end());
  return empty(sizes, self.scalar_type(), self.device(), self.suggest_memory_format());
}

Tensor adaptive_avg_pool2d(const Tensor& self, IntArrayRef output_size) {
  Tensor out = adaptive_pool_output("adaptive_avg_pool2d", self, output_size, 2);
  OpCall call("aten::_adaptive_avg_pool2d");
  call.write(out);
  call.read(self);
  call.record(Split::kNone, [size = at::DimVector(output_size)](const Tensor* t) {
    for_samples(t, 2, 1, [&](Tensor* p) { at::cpu::adaptive_avg_pool2d_outf(p[1], size, p[0]); });
  });
  return out;
}

Tensor adaptive_avg_pool3d(const Tensor& self, IntArrayRef output_size) {
  Tensor out = adaptive_pool_output("adaptive_avg_pool3d", self, output_size, 3);
  OpCall call("aten::_adaptive_avg_pool3d");
  call.write(out);
  call.read(self);
  call.record(Split::kNone, [size = at::DimVector(output_size)](const Tensor* t) {
    for_samples(t, 2, 1, [&](Tensor* p) { at::cpu::adaptive_avg_pool3d_outf(p[1], size, p[0]); });
  });
  return out;
}

using PoolBackward = Tensor (*)(const Tensor&, const Tensor&);

template <const char* name, PoolBackward kernel>
Tensor adaptive_avg_pool_backward(const Tensor& grad, const Tensor& self) {
  TORCH_CHECK(grad.dim() == self.dim(), name, ": expected a gradient of ", self.dim(),
              " dimensions, got ", grad.sizes());
  Tensor out = new_like(self, self.suggest_memory_format());
  OpCall call(name);
  call.write(out);
  call.read(grad);
  call.read(self);
  call.record(Split::kNone, [](const Tensor* t) {
    for_samples(t, 3, 0, [&](Tensor* p) { p[0].copy_(kernel(p[1], p[2])); });
  });
  return out;
}
constexpr char kPool2d[] = "aten::_adaptive_avg_pool2d_backward";
constexpr char kPool3d[] = "aten::_adaptive_avg_pool3d_backward";

// ---- padding of height and width -----------------------------------------------------------------

Tensor reflection_pad2d(const Tensor& self, IntArrayRef padding) {
  TORCH_CHECK(padding.size() == 4, "padding size is expected to be 4");
  TORCH_CHECK(self.dim() == 3 || self.dim() == 4, "reflection_pad2d: expected 3D or 4D input, got ",
              self.sizes());
  const int64_t height = self.size(-2), width = self.size(-1);
  TORCH_CHECK(padding[0] < width && padding[1] < width,
              "Argument #4: Padding size should be less than the corresponding input dimension, ",
              "but got: padding (", padding[0], ", ", padding[1], ") at dimension ",
              self.dim() - 1, " of input ", self.sizes());
  TORCH_CHECK(padding[2] < height && padding[3] < height,
              "Argument #6: Padding size should be less than the corresponding input dimension, ",
              "but got: padding (", padding[2], ", ", padding[3], ") at dimension ",
              self.dim() - 2, " of input ", self.sizes());
  at::DimVector sizes(self.sizes());
  sizes[sizes.size() - 1] = width + padding[0] + padding[1];
  sizes[sizes.size() - 2] = height + padding[2] + padding[3];
  TORCH_CHECK(sizes.back() >= 1 || sizes[sizes.size() - 2] >= 1,
              "input (H: ", height, ", W: ", width, ") is too small.");
  Tensor out = empty(sizes, self.scalar_type(), self.device(), self.suggest_memory_format());
  OpCall call("aten::reflection_pad2d");
  call.write(out);
  call.read(self);
  call.record(Split::kNone, [padding = at::DimVector(padding)](const Tensor* t) {
    for_samples(t, 2, 0, [&](Tensor* p) { at::cpu::reflection_pad2d_outf(p[1], padding, p[0]); });
  });
  return out;
}

using PadBackward = Tensor (*)(const Tensor&, const Tensor&, IntArrayRef);

template <const char* name, PadBackward kernel>
Tensor pad_backward(const Tensor& grad, const Tensor& self, IntArrayRef padding) {
  TORCH_CHECK(grad.dim() == self.dim() &&
                  grad.size(-1) == self.size(-1) + padding[0] + padding[1] &&
                  grad.size(-2) == self.size(-2) + padding[2] + padding[3],
              name, ": gradient of shape ", grad.sizes(), " does not fit input of shape ",
              self.sizes(), " with padding ", padding);
  Tensor out = new_like(self, self.suggest_memory_format());
  OpCall call(name);
  call.write(out);
  call.read(grad);
  call.read(self);
  call.record(Split::kNone, [padding = at::DimVector(padding)](const Tensor* t) {
    for_samples(t, 3, 1, [&](Tensor* p) { p[0].copy_(kernel(p[1], p[2], padding)); });
  });
  return out;
}
constexpr char kReflection[] = "aten::reflection_pad2d_backward";
constexpr char kReplication[] = "aten::replication_pad2d_backward";

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_adaptive_avg_pool2d", adaptive_avg_pool2d);
  m.impl("_adaptive_avg_pool3d", adaptive_avg_pool3d);
  m.impl("_adaptive_avg_pool2d_backward",
         adaptive_avg_pool_backward<kPool2d, at::cpu::_adaptive_avg_pool2d_backward>);
  m.impl("_adaptive_avg_pool3d_backward",
         adaptive_avg_pool_backward<kPool3d, at::cpu::_adaptive_avg_pool3d_backward>);
  m.impl("reflection_pad2d", reflection_pad2d);
  m.impl("reflection_pad2d_backward",
         pad_backward<kReflection, at::cpu::reflection_pad2d_backward>);
  m.impl("replication_pad2d_backward",
         pad_backward<kReplication, at::cpu::replication_pad2d_backward>);
}

}  // namespace
}  // namespace neuron::glue
