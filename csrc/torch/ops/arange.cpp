// SPDX-License-Identifier: Apache-2.0
//
// arange: the result's size follows from the arguments, so it is queued like any sized operator.
#include <ATen/AccumulateType.h>
#include <ATen/Dispatch.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/arange_cpu_dispatch.h>
#include <torch/library.h>

#include <cmath>

#include "torch/lowered_call.h"
#include "torch/op_call.h"

namespace neuron::glue {
namespace {

int64_t arange_size(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                    at::ScalarType dtype) {
  int64_t size = 0;
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "arange", [&] {
    size = at::native::compute_arange_size<scalar_t>(start, end, step);
  });
  return size;
}

bool record_lowered(const at::Tensor& out, const at::Scalar& start, const at::Scalar& step) {
  const DType type = to_dtype(out.scalar_type());
  if (type == DType::kOpaque || type == DType::kBool) return false;
  LoweredCall call(LoweredOp::kArange);
  call.write(out);
  call.structural(static_cast<int64_t>(type));
  call.structural(0);
  for (const at::Scalar& value : {start, step}) {
    if (is_floating(type)) {
      call.value(value.toDouble());
    } else {
      call.value(value.to<int64_t>());
    }
  }
  return call.record();
}

at::Tensor& arange_start_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                             at::Tensor& out) {
  const int64_t size = arange_size(start, end, step, out.scalar_type());
  if (out.numel() != size) {
    if (out.numel() > 0) {
      TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ",
                 out.numel(), " which does not match the computed number of elements ", size,
                 ". Note that this may occur as a result of rounding error. The out tensor will be "
                 "resized to a tensor of shape (", size, ",).");
    }
    out.resize_({size});
  }
  if (size == 0) return out;
  if (record_lowered(out, start, step)) return out;
  OpCall call("aten::arange.start_out");
  call.write(out);
  call.record(Split::kNone, [start, end, step](const at::Tensor* t) {
    at::Tensor target = t[0];
    at::cpu::arange_outf(start, end, step, target);
  });
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("arange.start_out", arange_start_out); }

}  // namespace
}  // namespace neuron::glue
