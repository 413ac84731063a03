// SPDX-License-Identifier: Apache-2.0
//
// Pointwise operators that PyTorch does not describe as structured: fills, selections, logic.
#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/abs_cpu_dispatch.h>
#include <ATen/ops/fill_cpu_dispatch.h>
#include <ATen/ops/floor_divide_cpu_dispatch.h>
#include <ATen/ops/logical_and_cpu_dispatch.h>
#include <ATen/ops/logical_not_cpu_dispatch.h>
#include <ATen/ops/logical_or_cpu_dispatch.h>
#include <ATen/ops/logical_xor_cpu_dispatch.h>
#include <ATen/ops/masked_fill_cpu_dispatch.h>
#include <ATen/ops/nan_to_num_cpu_dispatch.h>
#include <ATen/ops/ne_cpu_dispatch.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/where_cpu_dispatch.h>
#include <ATen/ops/zero_cpu_dispatch.h>
#include <torch/library.h>

#include <limits>
#include <utility>

#include "torch/lowered_call.h"
#include "torch/ops/pointwise.h"

namespace neuron::glue {
namespace {

using at::Scalar;
using at::Tensor;

// ---- fills ---------------------------------------------------------------------------------------

// Raises if an integer type cannot hold the value, as PyTorch's kernels do.
void check_fits(const Scalar& value, at::ScalarType type) {
  switch (type) {
    case at::kByte:
      value.to<uint8_t>();
      break;
    case at::kChar:
      value.to<int8_t>();
      break;
    case at::kShort:
      value.to<int16_t>();
      break;
    case at::kInt:
      value.to<int32_t>();
      break;
    case at::kLong:
      value.to<int64_t>();
      break;
    default:
      break;
  }
}

Tensor& fill_scalar(Tensor& self, const Scalar& value) {
  check_fits(value, self.scalar_type());
  if (pointwise(LoweredOp::kFill, self.scalar_type(), self, {value})) return self;
  record_pointwise("aten::fill_", self, {},
                   [value](const Tensor* t) { at::cpu::fill_(out_of(t[0]), value); });
  return self;
}

Tensor& fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ",
              value.dim(), " dimensions.");
  if (pointwise(LoweredOp::kFill, self.scalar_type(), self, {value})) return self;
  record_pointwise("aten::fill_", self, {value},
                   [](const Tensor* t) { at::cpu::fill_(out_of(t[0]), t[1]); });
  return self;
}

Tensor& zero(Tensor& self) {
  if (pointwise(LoweredOp::kFill, self.scalar_type(), self, {0.0})) return self;
  record_pointwise("aten::zero_", self, {},
                   [](const Tensor* t) { at::cpu::zero_(out_of(t[0])); });
  return self;
}

Tensor checked_mask(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool,
              "masked_fill_ only supports boolean masks, but got mask with dtype ", mask.dtype());
  return *at::expand_inplace(self, mask, "masked_fill_");
}

Tensor& masked_fill_scalar(Tensor& self, const Tensor& mask, const Scalar& value) {
  check_fits(value, self.scalar_type());
  const Tensor expanded = checked_mask(self, mask);
  if (pointwise(LoweredOp::kMaskedFill, self.scalar_type(), self, {self, expanded, value})) {
    return self;
  }
  record_pointwise("aten::masked_fill_", self, {self, expanded},
                   [value](const Tensor* t) {
                     at::cpu::masked_fill_(out_of(t[0]), t[2], value);
                   });
  return self;
}

Tensor& masked_fill_tensor(Tensor& self, const Tensor& mask, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0,
              "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  const Tensor expanded = checked_mask(self, mask);
  if (pointwise(LoweredOp::kMaskedFill, self.scalar_type(), self, {self, expanded, value})) {
    return self;
  }
  record_pointwise("aten::masked_fill_", self, {self, expanded, value},
                   [](const Tensor* t) { at::cpu::masked_fill_(out_of(t[0]), t[2], t[3]); });
  return self;
}

// ---- selection -----------------------------------------------------------------------------------

void record_where(const Tensor& out, const Tensor& condition, const Tensor& self,
                  const Tensor& other) {
  const at::ScalarType common = at::result_type(self, other);
  if (pointwise(LoweredOp::kWhere, common, out, {condition, self, other})) return;
  record_pointwise("aten::where", out, {condition, self, other}, [](const Tensor* t) {
    at::cpu::where_outf(t[1], t[2], t[3], out_of(t[0]));
  });
}

Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ",
              condition.scalar_type());
  Tensor out = broadcast_output(at::result_type(self, other), device_of({condition, self, other}),
                                {condition, self, other});
  record_where(out, condition, self, other);
  return out;
}

Tensor& where_out(const Tensor& condition, const Tensor& self, const Tensor& other, Tensor& out) {
  const auto sizes = at::infer_size_dimvector(condition.sizes(),
                                              at::infer_size_dimvector(self.sizes(), other.sizes()));
  at::native::resize_output(out, sizes);
  record_where(out, condition, self, other);
  return out;
}

// ---- unary ---------------------------------------------------------------------------------------

Tensor isnan(const Tensor& self) {
  Tensor out = new_like(self, at::kBool);
  if (pointwise(LoweredOp::kIsNan, self.scalar_type(), out, {self})) return out;
  record_pointwise("aten::isnan", out, {self},
                   [](const Tensor* t) { at::cpu::ne_outf(t[1], t[1], out_of(t[0])); });
  return out;
}

void record_abs(const Tensor& out, const Tensor& self) {
  if (pointwise(LoweredOp::kAbs, self.scalar_type(), out, {self})) return;
  record_pointwise("aten::abs", out, {self},
                   [](const Tensor* t) { at::cpu::abs_outf(t[1], out_of(t[0])); });
}

Tensor abs(const Tensor& self) {
  Tensor out = new_like(self, c10::toRealValueType(self.scalar_type()));
  record_abs(out, self);
  return out;
}

Tensor& abs_out(const Tensor& self, Tensor& out) {
  at::native::resize_output(out, self.sizes());
  record_abs(out, self);
  return out;
}

Tensor& logical_not_out(const Tensor& self, Tensor& out) {
  at::native::resize_output(out, self.sizes());
  if (pointwise(LoweredOp::kLogicalNot, self.scalar_type(), out, {self})) return out;
  record_pointwise("aten::logical_not", out, {self},
                   [](const Tensor* t) { at::cpu::logical_not_outf(t[1], out_of(t[0])); });
  return out;
}

// The lowest and the highest finite number of a floating type.
std::pair<double, double> finite_range(at::ScalarType type) {
  return AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "nan_to_num", [] {
    using Limits = std::numeric_limits<scalar_t>;
    return std::pair(static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max()));
  });
}

Tensor& nan_to_num_out(const Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                       std::optional<double> neginf, Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(), "nan_to_num: dtype of out: ",
              out.scalar_type(), " should be same as input: ", self.scalar_type());
  at::native::resize_output(out, self.sizes());
  if (at::isFloatingType(self.scalar_type())) {
    const auto [low, high] = finite_range(self.scalar_type());
    if (pointwise(LoweredOp::kNanToNum, self.scalar_type(), out,
                  {self, nan.value_or(0), posinf.value_or(high), neginf.value_or(low)})) {
      return out;
    }
  }
  record_pointwise("aten::nan_to_num", out, {self}, [=](const Tensor* t) {
    at::cpu::nan_to_num_outf(t[1], nan, posinf, neginf, out_of(t[0]));
  });
  return out;
}

// ---- binary --------------------------------------------------------------------------------------

using BinaryOut = Tensor& (*)(const Tensor&, const Tensor&, Tensor&);

template <const char* name, LoweredOp op, BinaryOut kernel>
Tensor& logical_out(const Tensor& self, const Tensor& other, Tensor& out) {
  at::native::resize_output(out, at::infer_size_dimvector(self.sizes(), other.sizes()));
  if (pointwise(op, at::result_type(self, other), out, {self, other})) return out;
  record_pointwise(name, out, {self, other},
                   [](const Tensor* t) { kernel(t[1], t[2], out_of(t[0])); });
  return out;
}
constexpr char kAnd[] = "aten::logical_and";
constexpr char kOr[] = "aten::logical_or";
constexpr char kXor[] = "aten::logical_xor";

void record_floor_divide(const Tensor& out, const Tensor& self, const Tensor& other) {
  const at::ScalarType common = at::result_type(self, other);
  if (pointwise(LoweredOp::kDivFloor, common, out, {self, other})) return;
  record_pointwise("aten::floor_divide", out, {self, other}, [](const Tensor* t) {
    at::cpu::floor_divide_outf(t[1], t[2], out_of(t[0]));
  });
}

Tensor floor_divide(const Tensor& self, const Tensor& other) {
  Tensor out = broadcast_output(at::result_type(self, other), device_of({self, other}),
                                {self, other});
  record_floor_divide(out, self, other);
  return out;
}

Tensor& floor_divide_out(const Tensor& self, const Tensor& other, Tensor& out) {
  const at::ScalarType dtype = at::result_type(self, other);
  TORCH_CHECK(at::canCast(dtype, out.scalar_type()), "result type ", dtype,
              " can't be cast to the desired output type ", out.scalar_type());
  at::native::resize_output(out, at::infer_size_dimvector(self.sizes(), other.sizes()));
  record_floor_divide(out, self, other);
  return out;
}

Tensor& floor_divide_inplace(Tensor& self, const Tensor& other) {
  TORCH_CHECK(at::infer_size_dimvector(self.sizes(), other.sizes()) == self.sizes(),
              "output with shape ", self.sizes(), " doesn't match the broadcast shape");
  return floor_divide_out(self, other, self);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fill_.Scalar", fill_scalar);
  m.impl("fill_.Tensor", fill_tensor);
  m.impl("zero_", zero);
  m.impl("masked_fill_.Scalar", masked_fill_scalar);
  m.impl("masked_fill_.Tensor", masked_fill_tensor);
  m.impl("where.self", where);
  m.impl("where.self_out", where_out);
  m.impl("isnan", isnan);
  m.impl("abs", abs);
  m.impl("abs.out", abs_out);
  m.impl("logical_not.out", logical_not_out);
  m.impl("logical_and.out", logical_out<kAnd, LoweredOp::kLogicalAnd, at::cpu::logical_and_outf>);
  m.impl("logical_or.out", logical_out<kOr, LoweredOp::kLogicalOr, at::cpu::logical_or_outf>);
  m.impl("logical_xor.out", logical_out<kXor, LoweredOp::kLogicalXor, at::cpu::logical_xor_outf>);
  m.impl("nan_to_num.out", nan_to_num_out);
  m.impl("floor_divide", floor_divide);
  m.impl("floor_divide.out", floor_divide_out);
  m.impl("floor_divide_.Tensor", floor_divide_inplace);
}

}  // namespace
}  // namespace neuron::glue
