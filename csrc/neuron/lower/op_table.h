// SPDX-License-Identifier: Apache-2.0
//
// The operator table: every ATen operation that has a lowering, and how its record is written.
//
// A caller that records an operation (the glue's typed kernels) fills an OpRecord as follows.
//
//   op          op_id(LoweredOp::k...). In-place and out variants are the same id with an output
//               that aliases an input.
//   inputs      the tensor operands in schema order with their own sizes and strides (not
//               broadcast); host scalars and absent optional tensors are left out and named by the
//               mask.
//   outputs     all results with their final sizes, strides and dtypes. Every output holds at least
//               one element: operations on nothing are not recorded. Rank at most kMaxRank.
//   attributes  8-byte words (lower/attributes.h): structural words, then value words. Structural
//               words are part of window keys; value words are run-time arguments and never cause
//               a new kernel.
//
// Words by family, S structural and V value:
//
//   pointwise   S0 common dtype (PyTorch's type promotion; what every operand is cast to)
//               S1 mask of operands that are host scalars; bit i = operand i
//               V  one word per host scalar in operand order, then the op's own values. A word
//               holds
//                  an f64 if the common dtype is floating, else an i64.
//               Inputs broadcast to the outputs by NumPy's rule. All outputs have one shape.
//   reduction   S0 common dtype (what the input is cast to: the result's, or the input's for any,
//                  all, arg*); S1 mask of reduced dims of input 0, bit d = dim d (a full reduction
//                  sets every dim's); S2 1 if reduced dims stay as size 1 in the outputs (keepdim).
//                  V the op's own values, f64.
//   softmax     S0 common dtype, S1 dim (not negative).
//   layer norm  S0 number of normalised trailing dims, S1 mask of present operands in schema order
//               (bit 0 input), S2 mask of wanted outputs. V0 eps (f64; forward only).
//
// The other families are described at their lists: generator_ops.h (generators, matrices, random
// numbers), norm_ops.h, loss_ops.h (scans, losses), indexing_table.h (reads and writes at computed
// places, movement). pointwise_ops.h lists further pointwise operations.
//
// Ids are static and append-only: they are part of stored keys.
#pragma once

#include <cstdint>
#include <string_view>

#include "neuron/ir/op_record.h"
#include "neuron/lower/generator_ops.h"
#include "neuron/lower/indexing_table.h"
#include "neuron/lower/loss_ops.h"
#include "neuron/lower/norm_ops.h"
#include "neuron/lower/pointwise_ops.h"

namespace neuron {

constexpr int kMaxRank = 6;

enum class OpFamily : uint8_t {
  kPointwise,
  kReduction,
  kSoftmax,
  kLayerNorm,
  kLayerNormBackward,
  kGenerator,
  kMatrix,
  kRandom,
  kBatchNorm,
  kBatchNormInference,
  kBatchNormBackward,
  kBatchNormInferenceBackward,
  kGroupNorm,
  kGroupNormBackward,
  kRmsNorm,
  kRmsNormBackward,
  kWeightNorm,
  kScan,
  kLoss,
  // Indexing and movement.
  kIndexRead,
  kIndexWrite,
  kWindowRead,
  kNllLoss,
  kNllLossBackward,
};

// X(enumerator, ATen name, family, operands, outputs, own value words). Notes on the right say when
// a caller picks the op, and its values in order.
// clang-format off
#define NEURON_BASIC_OPS(X)                                                                        \
  /* movement */                                                                                   \
  X(Copy, "aten::copy_", Pointwise, 1, 1, 0)        /* common dtype: the destination's */          \
  X(Fill, "aten::fill_", Pointwise, 1, 1, 0)        /* operand: a scalar, or a 0-dim tensor */     \
  X(Where, "aten::where", Pointwise, 3, 1, 0)       /* the condition is not cast */                \
  X(MaskedFill, "aten::masked_fill", Pointwise, 3, 1, 0)  /* self, mask (not cast), value */       \
  /* arithmetic */                                                                                 \
  X(Add, "aten::add", Pointwise, 2, 1, 0)           /* alpha == 1 */                               \
  X(AddScaled, "aten::add", Pointwise, 2, 1, 1)     /* alpha */                                    \
  X(Sub, "aten::sub", Pointwise, 2, 1, 0)           /* alpha == 1; rsub: operands swapped */       \
  X(SubScaled, "aten::sub", Pointwise, 2, 1, 1)     /* alpha */                                    \
  X(RsubScaled, "aten::rsub", Pointwise, 2, 1, 1)   /* other - alpha * self */                     \
  X(Mul, "aten::mul", Pointwise, 2, 1, 0)                                                          \
  X(Div, "aten::div", Pointwise, 2, 1, 0)           /* true division: common dtype is floating */  \
  X(DivTrunc, "aten::div", Pointwise, 2, 1, 0)      /* rounding_mode="trunc" */                    \
  X(DivFloor, "aten::div", Pointwise, 2, 1, 0)      /* rounding_mode="floor", floor_divide */      \
  X(Fmod, "aten::fmod", Pointwise, 2, 1, 0)                                                        \
  X(Remainder, "aten::remainder", Pointwise, 2, 1, 0)                                              \
  X(Pow, "aten::pow", Pointwise, 2, 1, 0)           /* floating; scalar exponents 2, 3, 0.5, -0.5, \
                                                       -1, -2: see Square ... below */             \
  X(Square, "aten::square", Pointwise, 1, 1, 0)     /* pow 2 */                                    \
  X(Cube, "aten::pow", Pointwise, 1, 1, 0)          /* pow 3 */                                    \
  X(ReciprocalSquare, "aten::pow", Pointwise, 1, 1, 0)  /* pow -2 */                               \
  X(Maximum, "aten::maximum", Pointwise, 2, 1, 0)   /* also clamp_min */                           \
  X(Minimum, "aten::minimum", Pointwise, 2, 1, 0)   /* also clamp_max */                           \
  X(Fmax, "aten::fmax", Pointwise, 2, 1, 0)                                                        \
  X(Fmin, "aten::fmin", Pointwise, 2, 1, 0)                                                        \
  X(Clamp, "aten::clamp", Pointwise, 3, 1, 0)       /* both bounds present, scalars or tensors */  \
  X(Atan2, "aten::atan2", Pointwise, 2, 1, 0)                                                      \
  X(Copysign, "aten::copysign", Pointwise, 2, 1, 0)                                                \
  X(Hypot, "aten::hypot", Pointwise, 2, 1, 0)                                                      \
  X(Nextafter, "aten::nextafter", Pointwise, 2, 1, 0)                                              \
  X(Logaddexp, "aten::logaddexp", Pointwise, 2, 1, 0)                                              \
  X(Logaddexp2, "aten::logaddexp2", Pointwise, 2, 1, 0)                                            \
  X(Xlogy, "aten::xlogy", Pointwise, 2, 1, 0)                                                      \
  X(Addcmul, "aten::addcmul", Pointwise, 3, 1, 1)   /* value */                                    \
  X(Addcdiv, "aten::addcdiv", Pointwise, 3, 1, 1)   /* value */                                    \
  X(Lerp, "aten::lerp", Pointwise, 3, 1, 0)         /* weight: scalar or tensor */                 \
  /* comparison and logic: common dtype is that of the operands, the output is bool */             \
  X(Eq, "aten::eq", Pointwise, 2, 1, 0) X(Ne, "aten::ne", Pointwise, 2, 1, 0)                      \
  X(Lt, "aten::lt", Pointwise, 2, 1, 0) X(Le, "aten::le", Pointwise, 2, 1, 0)                      \
  X(Gt, "aten::gt", Pointwise, 2, 1, 0) X(Ge, "aten::ge", Pointwise, 2, 1, 0)                      \
  X(LogicalAnd, "aten::logical_and", Pointwise, 2, 1, 0)                                           \
  X(LogicalOr, "aten::logical_or", Pointwise, 2, 1, 0)                                             \
  X(LogicalXor, "aten::logical_xor", Pointwise, 2, 1, 0)                                           \
  X(LogicalNot, "aten::logical_not", Pointwise, 1, 1, 0)                                           \
  X(IsNan, "aten::isnan", Pointwise, 1, 1, 0)                                                      \
  X(IsInf, "aten::isinf", Pointwise, 1, 1, 0)                                                      \
  X(IsFinite, "aten::isfinite", Pointwise, 1, 1, 0)                                                \
  X(IsPosinf, "aten::isposinf", Pointwise, 1, 1, 0)                                                \
  X(IsNeginf, "aten::isneginf", Pointwise, 1, 1, 0)                                                \
  X(Signbit, "aten::signbit", Pointwise, 1, 1, 0)                                                  \
  /* bits */                                                                                       \
  X(BitwiseAnd, "aten::bitwise_and", Pointwise, 2, 1, 0)                                           \
  X(BitwiseOr, "aten::bitwise_or", Pointwise, 2, 1, 0)                                             \
  X(BitwiseXor, "aten::bitwise_xor", Pointwise, 2, 1, 0)                                           \
  X(BitwiseNot, "aten::bitwise_not", Pointwise, 1, 1, 0)                                           \
  X(ShiftLeft, "aten::bitwise_left_shift", Pointwise, 2, 1, 0)                                     \
  X(ShiftRight, "aten::bitwise_right_shift", Pointwise, 2, 1, 0)                                   \
  /* functions of one argument; floating common dtype unless the op keeps integers */              \
  X(Neg, "aten::neg", Pointwise, 1, 1, 0) X(Abs, "aten::abs", Pointwise, 1, 1, 0)                  \
  X(Sign, "aten::sign", Pointwise, 1, 1, 0)         /* also sgn */                                 \
  X(Floor, "aten::floor", Pointwise, 1, 1, 0) X(Ceil, "aten::ceil", Pointwise, 1, 1, 0)            \
  X(Round, "aten::round", Pointwise, 1, 1, 0)       /* decimals == 0 */                            \
  X(Trunc, "aten::trunc", Pointwise, 1, 1, 0) X(Frac, "aten::frac", Pointwise, 1, 1, 0)            \
  X(Sqrt, "aten::sqrt", Pointwise, 1, 1, 0) X(Rsqrt, "aten::rsqrt", Pointwise, 1, 1, 0)            \
  X(Reciprocal, "aten::reciprocal", Pointwise, 1, 1, 0)                                            \
  X(Exp, "aten::exp", Pointwise, 1, 1, 0) X(Exp2, "aten::exp2", Pointwise, 1, 1, 0)                \
  X(Expm1, "aten::expm1", Pointwise, 1, 1, 0) X(Log, "aten::log", Pointwise, 1, 1, 0)              \
  X(Log2, "aten::log2", Pointwise, 1, 1, 0) X(Log10, "aten::log10", Pointwise, 1, 1, 0)            \
  X(Log1p, "aten::log1p", Pointwise, 1, 1, 0) X(Tanh, "aten::tanh", Pointwise, 1, 1, 0)            \
  X(Sinh, "aten::sinh", Pointwise, 1, 1, 0) X(Cosh, "aten::cosh", Pointwise, 1, 1, 0)              \
  X(Sin, "aten::sin", Pointwise, 1, 1, 0) X(Cos, "aten::cos", Pointwise, 1, 1, 0)                  \
  X(Tan, "aten::tan", Pointwise, 1, 1, 0) X(Asin, "aten::asin", Pointwise, 1, 1, 0)                \
  X(Acos, "aten::acos", Pointwise, 1, 1, 0) X(Atan, "aten::atan", Pointwise, 1, 1, 0)              \
  X(Asinh, "aten::asinh", Pointwise, 1, 1, 0) X(Acosh, "aten::acosh", Pointwise, 1, 1, 0)          \
  X(Atanh, "aten::atanh", Pointwise, 1, 1, 0) X(Erf, "aten::erf", Pointwise, 1, 1, 0)              \
  X(Erfc, "aten::erfc", Pointwise, 1, 1, 0) X(Erfinv, "aten::erfinv", Pointwise, 1, 1, 0)          \
  X(Sigmoid, "aten::sigmoid", Pointwise, 1, 1, 0) X(Lgamma, "aten::lgamma", Pointwise, 1, 1, 0)    \
  X(Digamma, "aten::digamma", Pointwise, 1, 1, 0) X(Sinc, "aten::sinc", Pointwise, 1, 1, 0)        \
  X(Logit, "aten::logit", Pointwise, 1, 1, 0)       /* eps is None */                              \
  X(LogitClamped, "aten::logit", Pointwise, 1, 1, 1)    /* eps */                                  \
  X(NanToNum, "aten::nan_to_num", Pointwise, 1, 1, 3)   /* nan, posinf, neginf */                  \
  /* activations */                                                                                \
  X(Relu, "aten::relu", Pointwise, 1, 1, 0)                                                        \
  X(LeakyRelu, "aten::leaky_relu", Pointwise, 1, 1, 1)          /* negative_slope */               \
  X(Threshold, "aten::threshold", Pointwise, 1, 1, 2)           /* threshold, value */             \
  X(Elu, "aten::elu", Pointwise, 1, 1, 3)                       /* alpha, scale, input_scale */    \
  X(Gelu, "aten::gelu", Pointwise, 1, 1, 0)                     /* approximate="none" */           \
  X(GeluTanh, "aten::gelu", Pointwise, 1, 1, 0)                 /* approximate="tanh" */           \
  X(Silu, "aten::silu", Pointwise, 1, 1, 0) X(Mish, "aten::mish", Pointwise, 1, 1, 0)              \
  X(Softplus, "aten::softplus", Pointwise, 1, 1, 2)             /* beta, threshold */              \
  X(Hardtanh, "aten::hardtanh", Pointwise, 1, 1, 2)             /* min_val, max_val */             \
  X(Hardsigmoid, "aten::hardsigmoid", Pointwise, 1, 1, 0)                                          \
  X(Hardswish, "aten::hardswish", Pointwise, 1, 1, 0)                                              \
  X(Hardshrink, "aten::hardshrink", Pointwise, 1, 1, 1)         /* lambd */                        \
  X(Softshrink, "aten::softshrink", Pointwise, 1, 1, 1)         /* lambd */                        \
  X(LogSigmoid, "aten::log_sigmoid_forward", Pointwise, 1, 1, 0)  /* the output alone */           \
  /* their gradients: operands in schema order */                                                  \
  X(SigmoidBackward, "aten::sigmoid_backward", Pointwise, 2, 1, 0)    /* grad, output */           \
  X(TanhBackward, "aten::tanh_backward", Pointwise, 2, 1, 0)          /* grad, output */           \
  X(ThresholdBackward, "aten::threshold_backward", Pointwise, 2, 1, 1)    /* threshold */          \
  X(LeakyReluBackward, "aten::leaky_relu_backward", Pointwise, 2, 1, 1)   /* negative_slope */     \
  X(EluBackward, "aten::elu_backward", Pointwise, 2, 1, 3)        /* of the input; as elu */       \
  X(EluBackwardResult, "aten::elu_backward", Pointwise, 2, 1, 3)  /* is_result=True */             \
  X(GeluBackward, "aten::gelu_backward", Pointwise, 2, 1, 0)                                       \
  X(GeluTanhBackward, "aten::gelu_backward", Pointwise, 2, 1, 0)                                   \
  X(SiluBackward, "aten::silu_backward", Pointwise, 2, 1, 0)                                       \
  X(MishBackward, "aten::mish_backward", Pointwise, 2, 1, 0)                                       \
  X(SoftplusBackward, "aten::softplus_backward", Pointwise, 2, 1, 2)  /* beta, threshold */        \
  X(HardtanhBackward, "aten::hardtanh_backward", Pointwise, 2, 1, 2)  /* min_val, max_val */       \
  X(HardsigmoidBackward, "aten::hardsigmoid_backward", Pointwise, 2, 1, 0)                         \
  X(HardswishBackward, "aten::hardswish_backward", Pointwise, 2, 1, 0)                             \
  X(ShrinkBackward, "aten::hardshrink_backward", Pointwise, 2, 1, 1)  /* lambd; softshrink too */  \
  X(LogSigmoidBackward, "aten::log_sigmoid_backward", Pointwise, 2, 1, 0)  /* grad, self */        \
  X(LogitBackward, "aten::logit_backward", Pointwise, 2, 1, 0)        /* eps is None */            \
  X(MseLossBackward, "aten::mse_loss_backward", Pointwise, 3, 1, 1)   /* 2, mean: 2/numel */       \
  /* reductions: own words beyond the family's */                                                  \
  X(Sum, "aten::sum", Reduction, 1, 1, 0) X(Mean, "aten::mean", Reduction, 1, 1, 0)                \
  X(Prod, "aten::prod", Reduction, 1, 1, 0)                                                        \
  X(Amax, "aten::amax", Reduction, 1, 1, 0) X(Amin, "aten::amin", Reduction, 1, 1, 0)              \
  X(Any, "aten::any", Reduction, 1, 1, 0) X(All, "aten::all", Reduction, 1, 1, 0)                  \
  X(Argmax, "aten::argmax", Reduction, 1, 1, 0)     /* one dim, or all */                          \
  X(Argmin, "aten::argmin", Reduction, 1, 1, 0)                                                    \
  X(MaxDim, "aten::max", Reduction, 1, 2, 0)        /* values, indices; one dim */                 \
  X(MinDim, "aten::min", Reduction, 1, 2, 0)                                                       \
  X(Var, "aten::var", Reduction, 1, 1, 1)           /* correction, f64 */                          \
  X(Std, "aten::std", Reduction, 1, 1, 1)           /* correction */                               \
  X(VarMean, "aten::var_mean", Reduction, 1, 2, 1)  /* correction; var, mean */                    \
  X(Norm1, "aten::linalg_vector_norm", Reduction, 1, 1, 0)                                         \
  X(Norm2, "aten::linalg_vector_norm", Reduction, 1, 1, 0)                                         \
  X(NormInf, "aten::linalg_vector_norm", Reduction, 1, 1, 0)                                       \
  X(Logsumexp, "aten::logsumexp", Reduction, 1, 1, 0)                                              \
  X(Softmax, "aten::_softmax", Softmax, 1, 1, 0)                                                   \
  X(LogSoftmax, "aten::_log_softmax", Softmax, 1, 1, 0)                                            \
  X(SoftmaxBackward, "aten::_softmax_backward_data", Softmax, 2, 1, 0)         /* grad, output */  \
  X(LogSoftmaxBackward, "aten::_log_softmax_backward_data", Softmax, 2, 1, 0)  /* grad, output */  \
  X(LayerNorm, "aten::native_layer_norm", LayerNorm, 3, 3, 1)                                      \
  X(LayerNormBackward, "aten::native_layer_norm_backward", LayerNormBackward, 5, 3, 0)  /* grad_out, \
                                          input, mean, rstd, weight; outputs wanted ones only */
// clang-format on

// All operations in the order of their numbers: append lists at the end.
#define NEURON_LOWERED_OPS(X) \
  NEURON_BASIC_OPS(X)         \
  NEURON_GENERATOR_OPS(X)     \
  NEURON_NORM_OPS(X) NEURON_SCAN_OPS(X) NEURON_LOSS_OPS(X) NEURON_POINTWISE_OPS(X)

// Numbers of the operations, from OpId::kFirstLowered on.
enum class LoweredOp : uint16_t {
  kBefore = static_cast<uint16_t>(OpId::kFirstLowered) - 1,
#define NEURON_LOWERED_OP_ENUM(op, name, family, operands, outputs, values) k##op,
  NEURON_LOWERED_OPS(NEURON_LOWERED_OP_ENUM) kEnd,
  kBeforeIndexing = kFirstIndexingOp - 1,
  NEURON_INDEXING_OPS(NEURON_LOWERED_OP_ENUM)
#undef NEURON_LOWERED_OP_ENUM
      kIndexingEnd,
};

constexpr OpId op_id(LoweredOp op) { return static_cast<OpId>(op); }
constexpr bool is_lowered(OpId id) {
  const auto in = [id](uint16_t first, LoweredOp end) {
    const auto n = static_cast<uint16_t>(id);
    return n >= first && n < static_cast<uint16_t>(end);
  };
  return in(static_cast<uint16_t>(OpId::kFirstLowered), LoweredOp::kEnd) ||
         in(kFirstIndexingOp, LoweredOp::kIndexingEnd);
}

struct OpInfo {
  const char* id;    // the enumerator without k: unique, used in text forms
  const char* name;  // "aten::add"
  OpFamily family;
  uint8_t operands;  // scalar and absent ones included
  uint8_t outputs;   // at most
  uint8_t values;    // own value words
};

const OpInfo& op_info(OpId id);
// Structural words of a family's records.
size_t structural_words(OpFamily family);
// The op with that enumerator name, or OpId::kHostCall.
OpId find_op(std::string_view id);

}  // namespace neuron
