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
  const at::DimMask mask = at::native::make_dim_mask(dims, self.dim());
  return empty(at::native::shape_from_dim_mask(self, mask, keepdim), dtype, self.device());
}

// Rows along dimension 0 are independent unless it is reduced or dropped from the left.
Split split_of(const Tensor& self, OptionalIntArrayRef dims) {
  if (self.dim() < 2) return Split::kNone;
  return at::native::make_dim_mask(dims, self.dim())[0] ? Split::kNone : Split::kRows;
}

void check_variance(const char* name, const Tensor& self) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || at::isComplexType(self.scalar_type()),
              name, " only support floating point and complex dtypes");
}

template <const char* name, auto kernel>
Tensor variance(const Tensor& self, OptionalIntArrayRef dims, const std::optional<Scalar>& correction,
                bool keepdim) {
  check_variance(name, self);
  Tensor out = reduced(self, dims, keepdim, c10::toRealValueType(self.scalar_type()));
  OpCall call(name);
  call.write(out);
  call.read(self);
  call.record(split_of(self, dims), [owned = own(dims), correction, keepdim](const Tensor* t) {
    kernel(t[1], owned.view(), correction, keepdim, out_of(t[0]));
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
  OpCall call(name);
  call.write(out);
  call.write(mean);
  call.read(self);
  call.record(split_of(self, dims), [owned = own(dims), correction, keepdim](const Tensor* t) {
    const auto [variance, mean] = kernel(t[2], owned.view(), correction, keepdim);
    t[0].copy_(variance);
    t[1].copy_(mean);
  });
  return {std::move(out), std::move(mean)};
}

constexpr char kVar[] = "aten::var";
constexpr char kStd[] = "aten::std";
constexpr char kVarMean[] = "aten::var_mean";
constexpr char kStdMean[] = "aten::std_mean";
using VarianceOut = Tensor& (*)(const Tensor&, OptionalIntArrayRef, const std::optional<Scalar>&,
                                bool, Tensor&);

Tensor prod(const Tensor& self, std::optional<at::ScalarType> dtype) {
  Tensor out = empty({}, at::native::get_dtype_from_self(self, dtype, true), self.device());
  OpCall call("aten::prod");
  call.write(out);
  call.read(self);
  call.record(Split::kNone,
              [dtype](const Tensor* t) { t[0].copy_(at::cpu::prod(t[1], dtype)); });
  return out;
}

template <const char* name, auto kernel>
Tensor extremum(const Tensor& self) {
  TORCH_CHECK(self.numel() > 0, name + 6, "(): Expected reduction dim to be specified for ",
              "input.numel() == 0. Specify the reduction dim with the 'dim' argument.");
  Tensor out = empty({}, self.scalar_type(), self.device());
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
  m.impl("var.correction", variance<kVar, static_cast<VarianceOut>(at::cpu::var_outf)>);
  m.impl("std.correction", variance<kStd, static_cast<VarianceOut>(at::cpu::std_outf)>);
  m.impl("var_mean.correction",
         variance_and_mean<kVarMean, static_cast<std::tuple<Tensor, Tensor> (*)(
                                         const Tensor&, OptionalIntArrayRef,
                                         const std::optional<Scalar>&, bool)>(at::cpu::var_mean)>);
  m.impl("std_mean.correction",
         variance_and_mean<kStdMean, static_cast<std::tuple<Tensor, Tensor> (*)(
                                         const Tensor&, OptionalIntArrayRef,
                                         const std::optional<Scalar>&, bool)>(at::cpu::std_mean)>);
  m.impl("prod", prod);
  m.impl("max", extremum<kMax, static_cast<Full>(at::cpu::max)>);
  m.impl("min", extremum<kMin, static_cast<Full>(at::cpu::min)>);
  m.impl("dot", dot);
}

}  // namespace
}  // namespace neuron::glue
