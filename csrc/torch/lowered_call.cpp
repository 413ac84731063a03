// SPDX-License-Identifier: Apache-2.0
#include "torch/lowered_call.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/result_type.h>

#include <cmath>

#include "neuron/runtime/block.h"
#include "neuron/runtime/stream.h"
#include "torch/current.h"
#include "torch/errors.h"
#include "torch/op_tracking.h"
#include "torch/source.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

// Operations that compute with integers; all others are floating, or promote to floating.
bool takes_integers(LoweredOp op) {
  switch (op) {
    case LoweredOp::kCopy:
    case LoweredOp::kFill:
    case LoweredOp::kWhere:
    case LoweredOp::kMaskedFill:
    case LoweredOp::kAdd:
    case LoweredOp::kAddScaled:
    case LoweredOp::kSub:
    case LoweredOp::kSubScaled:
    case LoweredOp::kRsubScaled:
    case LoweredOp::kMul:
    case LoweredOp::kDivTrunc:
    case LoweredOp::kDivFloor:
    case LoweredOp::kFmod:
    case LoweredOp::kRemainder:
    case LoweredOp::kSquare:
    case LoweredOp::kCube:
    case LoweredOp::kMaximum:
    case LoweredOp::kMinimum:
    case LoweredOp::kFmax:
    case LoweredOp::kFmin:
    case LoweredOp::kClamp:
    case LoweredOp::kAddcmul:
    case LoweredOp::kEq:
    case LoweredOp::kNe:
    case LoweredOp::kLt:
    case LoweredOp::kLe:
    case LoweredOp::kGt:
    case LoweredOp::kGe:
    case LoweredOp::kLogicalAnd:
    case LoweredOp::kLogicalOr:
    case LoweredOp::kLogicalXor:
    case LoweredOp::kLogicalNot:
    case LoweredOp::kIsNan:
    case LoweredOp::kIsInf:
    case LoweredOp::kIsFinite:
    case LoweredOp::kIsPosinf:
    case LoweredOp::kIsNeginf:
    case LoweredOp::kSignbit:
    case LoweredOp::kBitwiseAnd:
    case LoweredOp::kBitwiseOr:
    case LoweredOp::kBitwiseXor:
    case LoweredOp::kBitwiseNot:
    case LoweredOp::kShiftLeft:
    case LoweredOp::kShiftRight:
    case LoweredOp::kNeg:
    case LoweredOp::kAbs:
    case LoweredOp::kSign:
    case LoweredOp::kFloor:
    case LoweredOp::kCeil:
    case LoweredOp::kRound:
    case LoweredOp::kTrunc:
    case LoweredOp::kNanToNum:
    case LoweredOp::kRelu:
    case LoweredOp::kThreshold:
    case LoweredOp::kThresholdBackward:
    case LoweredOp::kHardtanh:
    case LoweredOp::kHardtanhBackward:
    case LoweredOp::kSum:
    case LoweredOp::kProd:
    case LoweredOp::kAmax:
    case LoweredOp::kAmin:
    case LoweredOp::kAny:
    case LoweredOp::kAll:
    case LoweredOp::kArgmax:
    case LoweredOp::kArgmin:
    case LoweredOp::kMaxDim:
    case LoweredOp::kMinDim:
      return true;
    default:
      return false;
  }
}

bool takes_truth_values(LoweredOp op) {
  switch (op) {
    case LoweredOp::kCopy:
    case LoweredOp::kFill:
    case LoweredOp::kWhere:
    case LoweredOp::kMaskedFill:
    case LoweredOp::kAdd:
    case LoweredOp::kMul:
    case LoweredOp::kEq:
    case LoweredOp::kNe:
    case LoweredOp::kLogicalAnd:
    case LoweredOp::kLogicalOr:
    case LoweredOp::kLogicalXor:
    case LoweredOp::kLogicalNot:
    case LoweredOp::kBitwiseAnd:
    case LoweredOp::kBitwiseOr:
    case LoweredOp::kBitwiseXor:
    case LoweredOp::kBitwiseNot:
    case LoweredOp::kAny:
    case LoweredOp::kAll:
      return true;
    default:
      return false;
  }
}

bool takes(LoweredOp op, DType common) {
  if (is_floating(common)) return true;
  if (common == DType::kBool) return takes_truth_values(op);
  return is_integral(common) && takes_integers(op);
}

bool is_host_number(const at::Tensor& tensor) { return tensor.is_cpu() && tensor.dim() == 0; }

// The value of a number as a word of the encoding; false for complex ones.
bool add_number(LoweredCall& call, const at::Scalar& number, bool floating) {
  if (number.isComplex()) return false;
  if (floating) {
    call.value(number.toDouble());
  } else if (number.isFloatingPoint()) {
    call.value(static_cast<int64_t>(number.toDouble()));
  } else {
    call.value(number.toLong());
  }
  return true;
}

// The number in a 0-dim CPU tensor, without a dispatcher call.
std::optional<at::Scalar> host_number(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return at::Scalar(*static_cast<const double*>(data));
    case at::kFloat:
      return at::Scalar(*static_cast<const float*>(data));
    case at::kLong:
      return at::Scalar(*static_cast<const int64_t*>(data));
    case at::kInt:
      return at::Scalar(*static_cast<const int32_t*>(data));
    case at::kBool:
      return at::Scalar(*static_cast<const bool*>(data));
    case at::kHalf:
      return at::Scalar(static_cast<float>(*static_cast<const c10::Half*>(data)));
    case at::kBFloat16:
      return at::Scalar(static_cast<float>(*static_cast<const c10::BFloat16*>(data)));
    case at::kShort:
      return at::Scalar(*static_cast<const int16_t*>(data));
    case at::kChar:
      return at::Scalar(*static_cast<const int8_t*>(data));
    case at::kByte:
      return at::Scalar(*static_cast<const uint8_t*>(data));
    default:
      return std::nullopt;
  }
}

}  // namespace

DType to_dtype(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return DType::kBool;
    case at::kByte:
      return DType::kUInt8;
    case at::kChar:
      return DType::kInt8;
    case at::kShort:
      return DType::kInt16;
    case at::kInt:
      return DType::kInt32;
    case at::kLong:
      return DType::kInt64;
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBFloat16;
    case at::kFloat:
      return DType::kFloat32;
    case at::kDouble:
      return DType::kFloat64;
    default:
      return DType::kOpaque;
  }
}

void LoweredCall::add(const at::Tensor& tensor, bool written) {
  if (!possible_) return;
  const c10::Device device = tensor.device();
  TORCH_CHECK(device.type() == kNeuron && (device_ < 0 || device_ == device.index()),
              "Expected all tensors to be on the same device, but found at least two devices, ",
              c10::Device(kNeuron, device_ < 0 ? current_device() : device_), " and ", device,
              "! (when checking argument in ", op_info(op_id(op_)).name, ")");
  device_ = device.index();
  TensorRef ref;
  ref.dtype = to_dtype(tensor.scalar_type());
  ref.rank = static_cast<uint8_t>(tensor.dim());
  if (ref.dtype == DType::kOpaque || tensor.dim() > kMaxRank || tensor.numel() == 0 ||
      tensor.is_neg()) {
    return refuse();
  }
  ref.block = block_of(tensor);
  ref.byte_offset =
      tensor.storage_offset() * static_cast<int64_t>(tensor.dtype().itemsize());
  ref.sizes = tensor.sizes().data();
  ref.strides = tensor.strides().data();
  if (written) {
    NEURON_CHECK(output_count_ < outputs_.size());
    ref.overwrites = tensor.nbytes() == ref.block->bytes() && tensor.is_non_overlapping_and_dense();
    outputs_[output_count_++] = ref;
  } else {
    NEURON_CHECK(input_count_ < inputs_.size());
    inputs_[input_count_++] = ref;
  }
}

bool LoweredCall::record() {
  if (!possible_) return false;
  const std::span inputs(inputs_.data(), input_count_);
  const std::span outputs(outputs_.data(), output_count_);
  for (TensorRef& out : outputs) {
    for (const TensorRef& in : inputs) out.overwrites &= in.block != out.block;
  }
  RecordRequest request;
  request.op = op_id(op_);
  request.source = current_source();
  request.inputs = inputs;
  request.outputs = outputs;
  request.attributes = attributes_.bytes();
  count_executed(op_info(request.op).name, Route::kLowered);
  guarded([&] { current_stream(device_).record(std::move(request)); });
  return true;
}

bool pointwise(LoweredOp op, at::ScalarType common, const at::Tensor& out,
               std::initializer_list<PointwiseArgument> arguments) {
  if (common == at::ScalarType::Undefined) {
    for (const PointwiseArgument& a : arguments) {
      if (a.tensor == nullptr) continue;
      common = a.tensor->scalar_type();
      break;
    }
  }
  const DType type = to_dtype(common);
  if (!takes(op, type)) return false;
  const bool floating = is_floating(type);
  const size_t operands = op_info(op_id(op)).operands;
  LoweredCall call(op);
  call.write(out);
  uint64_t scalars = 0;
  size_t i = 0;
  for (const PointwiseArgument& a : arguments) {
    if (i >= operands) break;
    if (a.tensor == nullptr || is_host_number(*a.tensor)) {
      scalars |= uint64_t{1} << i;
    } else {
      call.read(*a.tensor);
    }
    ++i;
  }
  call.structural(static_cast<int64_t>(type));
  call.structural(static_cast<int64_t>(scalars));
  for (const PointwiseArgument& a : arguments) {
    if (a.number != nullptr) {
      if (!add_number(call, *a.number, floating)) return false;
    } else if (a.tensor == nullptr) {
      if (!add_number(call, at::Scalar(a.plain), floating)) return false;
    } else if (is_host_number(*a.tensor)) {
      const std::optional<at::Scalar> number = host_number(*a.tensor);
      if (!number.has_value() || !add_number(call, *number, floating)) return false;
    }
  }
  return call.record();
}

bool power(const at::Tensor& out, const at::Tensor& self, const at::Scalar& exponent) {
  if (exponent.isComplex()) return false;
  const at::ScalarType common = at::result_type(self, exponent);
  const double e = exponent.toDouble();
  const auto alone = [&](LoweredOp op) { return pointwise(op, common, out, {self}); };
  if (e == 2) return alone(LoweredOp::kSquare);
  if (e == 3) return alone(LoweredOp::kCube);
  if (!at::isFloatingType(common)) return false;
  if (e == 0.5) return alone(LoweredOp::kSqrt);
  if (e == -0.5) return alone(LoweredOp::kRsqrt);
  if (e == -1) return alone(LoweredOp::kReciprocal);
  if (e == -2) return alone(LoweredOp::kReciprocalSquare);
  return pointwise(LoweredOp::kPow, common, out, {self, exponent});
}

bool reduce(LoweredOp op, at::ScalarType common, std::initializer_list<const at::Tensor*> outputs,
               const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
               std::initializer_list<double> values) {
  const DType type = to_dtype(common);
  if (!takes(op, type)) return false;
  LoweredCall call(op);
  for (const at::Tensor* out : outputs) call.write(*out);
  call.read(self);
  uint64_t mask = 0;
  if (dims.has_value()) {
    for (const int64_t dim : *dims) {
      if (self.dim() > 0) mask |= uint64_t{1} << c10::maybe_wrap_dim(dim, self.dim());
    }
  }
  if (mask == 0) mask = (uint64_t{1} << self.dim()) - 1;
  call.structural(static_cast<int64_t>(type));
  call.structural(static_cast<int64_t>(mask));
  call.structural(keepdim ? 1 : 0);
  for (const double value : values) call.value(value);
  return call.record();
}

bool vector_norm(const at::Tensor& out, const at::Tensor& self, const at::Scalar& order,
                 at::OptionalIntArrayRef dims, bool keepdim) {
  if (order.isComplex() || !at::isFloatingType(self.scalar_type())) return false;
  const double p = order.toDouble();
  const auto norm = [&](LoweredOp op) {
    return reduce(op, out.scalar_type(), {&out}, self, dims, keepdim);
  };
  if (p == 1) return norm(LoweredOp::kNorm1);
  if (p == 2) return norm(LoweredOp::kNorm2);
  if (p == std::numeric_limits<double>::infinity()) return norm(LoweredOp::kNormInf);
  return false;
}

bool softmax(LoweredOp op, at::ScalarType common, const at::Tensor& out,
             std::initializer_list<const at::Tensor*> inputs, int64_t dim) {
  const DType type = to_dtype(common);
  if (!is_floating(type)) return false;
  LoweredCall call(op);
  call.write(out);
  for (const at::Tensor* input : inputs) call.read(*input);
  call.structural(static_cast<int64_t>(type));
  call.structural(c10::maybe_wrap_dim(dim, out.dim()));
  return call.record();
}

}  // namespace neuron::glue
