// SPDX-License-Identifier: Apache-2.0
#include "neuron/lower/op_dtypes.h"

namespace neuron {
namespace {

enum class Takes : uint8_t {
  kWide,  // f32, f64
  kFloating,
  kNumbers,   // floating dtypes and integers
  kAll,       // and bool
  kIntegers,  // and nothing else
  kBits,      // integers and bool
};

Takes takes(LoweredOp op) {
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
    case LoweredOp::kAny:
    case LoweredOp::kAll:
      return Takes::kAll;
    case LoweredOp::kAddScaled:
    case LoweredOp::kSub:
    case LoweredOp::kSubScaled:
    case LoweredOp::kRsubScaled:
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
    case LoweredOp::kLt:
    case LoweredOp::kLe:
    case LoweredOp::kGt:
    case LoweredOp::kGe:
    case LoweredOp::kIsNan:
    case LoweredOp::kIsInf:
    case LoweredOp::kIsFinite:
    case LoweredOp::kIsPosinf:
    case LoweredOp::kIsNeginf:
    case LoweredOp::kSignbit:
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
    case LoweredOp::kArgmax:
    case LoweredOp::kArgmin:
    case LoweredOp::kMaxDim:
    case LoweredOp::kMinDim:
      return Takes::kNumbers;
    case LoweredOp::kNextafter:
      return Takes::kWide;
    case LoweredOp::kShiftLeft:
    case LoweredOp::kShiftRight:
      return Takes::kIntegers;
    case LoweredOp::kBitwiseAnd:
    case LoweredOp::kBitwiseOr:
    case LoweredOp::kBitwiseXor:
    case LoweredOp::kBitwiseNot:
      return Takes::kBits;
    default:
      return Takes::kFloating;
  }
}

}  // namespace

bool takes_common_dtype(LoweredOp op, DType common) {
  const Takes kind = takes(op);
  if (common == DType::kFloat32 || common == DType::kFloat64) return kind <= Takes::kAll;
  if (is_floating(common)) return kind != Takes::kWide && kind <= Takes::kAll;
  if (common == DType::kBool) return kind == Takes::kAll || kind == Takes::kBits;
  return is_integral(common) && kind > Takes::kFloating;
}

}  // namespace neuron
