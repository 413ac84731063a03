// SPDX-License-Identifier: Apache-2.0
//
// Reductions that PyTorch does not describe as structured: variance and deviation, products, extrema
// and dot products over everything.
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/dot_cpu_dispatch.h>
#include <ATen/ops/max_cpu_dispatch.h>
#include <ATen/ops/min_cpu_dispatch.h>
#include <ATen/ops/prod_cpu_dispatch.h>
#include <ATen/ops/std_cpu_dispatch.h>
#include <ATen/ops/std_mean_cpu_dispatch.h>
#include <ATen/ops/var_cpu_dispatch.h>
#include <ATen/ops/var_mean_cpu_dispatch.h>
#include <torch/library.h>

#include "torch/lowered_call.h"
#include "torch/op_call.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::OptionalIntArrayRef;
using at::Scalar;
using at::Tensor;

struct Dims {
  std::optional<at::DimVector> dims;
  OptionalIntArrayRef view() const {
    return dims.has_value() ? OptionalIntArrayRef(at::IntArrayRef(*dims)) : std::nullopt;
  }
};

Dims own(OptionalIntArrayRef dims) {
  return {dims.has_value() ? std::optional(at::DimVector(dims->begin(), dims->end()))
                           : std::nullopt};
}

Tensor reduced(const Tensor& self, OptionalIntArrayRef dims, bool keepdim, at::ScalarType dtype) {
  const auto mask = at::native::make_dim_mask(dims, self.dim());
  return empty(at::native::shape_from_dim_mask(self, mask, keepdim), dtype, self.device());
}

// How many slices along dimension 0 make a tile; all of them if dimension 0 is reduced, too.
int64_t slices_per_tile(const Tensor& self, OptionalIntArrayRef dims) {
  if (self.dim() < 2 || self.numel() == 0) return std::max<int64_t>(1, self.numel());
  const int64_t slices = self.size(0);
  if (at::native::make_dim_mask(dims, self.dim())[0]) return slices;
  return rows_per_tile(slices, self.numel() / slices);
}

// Calls `body(first, count)` for tiles of dimension 0, once with count -1 for no tiling.
template <typename Body>
void for_slices(const Tensor& self, OptionalIntArrayRef dims, const Body& body) {
  const int64_t step = slices_per_tile(self, dims);
  if (self.dim() < 2 || self.numel() == 0 || step >= self.size(0)) return body(0, -1);
  for_tiles(self.size(0), step,
            [&](int64_t, int64_t begin, int64_t count) { body(begin, count); });
}

Tensor part_of(const Tensor& t, int64_t begin, int64_t count) {
  return count < 0 ? t : slice(t, 0, begin, count);
}

constexpr char kVar[] = "aten::var";
constexpr char kStd[] = "aten::std";
constexpr char kVarMean[] = "aten::var_mean";
constexpr char kStdMean[] = "aten::std_mean";

void check_variance(const char* name, const Tensor& self) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || at::isComplexType(self.scalar_type()),
              name, " only support floating point and complex dtypes");
}

double divisor_correction(const std::optional<Scalar>& correction) {
  return correction.has_value() ? correction->toDouble() : 1.0;
}

template <const char* name, LoweredOp op, auto kernel>
Tensor variance(const Tensor& self, OptionalIntArrayRef dims, const std::optional<Scalar>& correction,
                bool keepdim) {
  check_variance(name, self);
  Tensor out = reduced(self, dims, keepdim, c10::toRealValueType(self.scalar_type()));
  if (reduce(op, self.scalar_type(), {&out}, self, dims, keepdim,
             {divisor_correction(correction)})) {
    return out;
  }
  OpCall call(name);
  call.write(out);
  call.read(self);
  call.record(Split::kNone, [owned = own(dims), correction, keepdim](const Tensor* t) {
    for_slices(t[1], owned.view(), [&](int64_t begin, int64_t count) {
      Tensor out = part_of(t[0], begin, count);
      kernel(part_of(t[1], begin, count), owned.view(), correction, keepdim, out);
    });
  });
  return out;
}

template <const char* name, auto kernel>
std::tuple<Tensor, Tensor> variance_and_mean(const Tensor& self, OptionalIntArrayRef dims,
                                             const std::optional<Scalar>& correction,
                                             bool keepdim) {
  check_variance(name, self);
  Tensor out = reduced(self, dims, keepdim, c10::toRealValueType(self.scalar_type()));
  Tensor mean = reduced(self, dims, keepdim, self.scalar_type());
  if constexpr (name == kVarMean) {
    if (reduce(LoweredOp::kVarMean, self.scalar_type(), {&out, &mean}, self, dims, keepdim,
               {divisor_correction(correction)})) {
      return {std::move(out), std::move(mean)};
    }
  }
  OpCall call(name);
  call.write(out);
  call.write(mean);
  call.read(self);
  call.record(Split::kNone, [owned = own(dims), correction, keepdim](const Tensor* t) {
    for_slices(t[2], owned.view(), [&](int64_t begin, int64_t count) {
      const auto [variance, mean] =
          kernel(part_of(t[2], begin, count), owned.view(), correction, keepdim);
      part_of(t[0], begin, count).copy_(variance);
      part_of(t[1], begin, count).copy_(mean);
    });
  });
  return {std::move(out), std::move(mean)};
}

using VarianceOut = Tensor& (*)(const Tensor&, OptionalIntArrayRef, const std::optional<Scalar>&,
                                bool, Tensor&);

Tensor prod(const Tensor& self, std::optional<at::ScalarType> dtype) {
  Tensor out = empty({}, at::native::get_dtype_from_self(self, dtype, true), self.device());
  if (reduce(LoweredOp::kProd, out.scalar_type(), {&out}, self, at::OptionalIntArrayRef(), false)) {
    return out;
  }
  OpCall call("aten::prod");
  call.write(out);
  call.read(self);
  call.record(Split::kNone,
              [dtype](const Tensor* t) { t[0].copy_(at::cpu::prod(t[1], dtype)); });
  return out;
}

template <const char* name, LoweredOp op, auto kernel>
Tensor extremum(const Tensor& self) {
  TORCH_CHECK(self.numel() > 0, name + 6, "(): Expected reduction dim to be specified for ",
              "input.numel() == 0. Specify the reduction dim with the 'dim' argument.");
  Tensor out = empty({}, self.scalar_type(), self.device());
  if (reduce(op, self.scalar_type(), {&out}, self, at::OptionalIntArrayRef(), false)) return out;
  OpCall call(name);
  call.write(out);
  call.read(self);
  call.record(Split::kNone, [](const Tensor* t) { t[0].copy_(kernel(t[1])); });
  return out;
}
constexpr char kMax[] = "aten::max";
constexpr char kMin[] = "aten::min";
using Full = Tensor (*)(const Tensor&);

Tensor dot(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(),
              "D and ", other.dim(), "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(),
              "dot : expected both vectors to have same dtype, but found ", self.scalar_type(),
              " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [",
              self.numel(), "] and src [", other.numel(), "] to have the same number of elements, ",
              "but got ", self.numel(), " and ", other.numel(), " elements respectively");
  Tensor out = empty({}, self.scalar_type(), self.device());
  OpCall call("aten::dot");
  call.write(out);
  call.read(self);
  call.read(other);
  call.record(Split::kNone, [](const Tensor* t) { t[0].copy_(at::cpu::dot(t[1], t[2])); });
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("var.correction", variance<kVar, LoweredOp::kVar, static_cast<VarianceOut>(at::cpu::var_outf)>);
  m.impl("std.correction", variance<kStd, LoweredOp::kStd, static_cast<VarianceOut>(at::cpu::std_outf)>);
  m.impl("var_mean.correction",
         variance_and_mean<kVarMean, static_cast<std::tuple<Tensor, Tensor> (*)(
                                         const Tensor&, OptionalIntArrayRef,
                                         const std::optional<Scalar>&, bool)>(at::cpu::var_mean)>);
  m.impl("std_mean.correction",
         variance_and_mean<kStdMean, static_cast<std::tuple<Tensor, Tensor> (*)(
                                         const Tensor&, OptionalIntArrayRef,
                                         const std::optional<Scalar>&, bool)>(at::cpu::std_mean)>);
  m.impl("prod", prod);
  m.impl("max", extremum<kMax, LoweredOp::kAmax, static_cast<Full>(at::cpu::max)>);
  m.impl("min", extremum<kMin, LoweredOp::kAmin, static_cast<Full>(at::cpu::min)>);
  m.impl("dot", dot);
}

}  // namespace
}  // namespace neuron::glue
