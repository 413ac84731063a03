// SPDX-License-Identifier: Apache-2.0
//
// Part of the operator table (op_table.h): further pointwise operations. Words as for the family;
// all outputs of an operation with two have one shape.
#pragma once

// clang-format off
#define NEURON_POINTWISE_OPS(X)                                                                    \
  X(PowInt, "aten::pow", Pointwise, 2, 1, 0)      /* integers; negative exponents give 0 but for   \
                                                     bases 1 and -1 */                             \
  X(Heaviside, "aten::heaviside", Pointwise, 2, 1, 0)                                              \
  X(Xlog1py, "aten::special_xlog1py", Pointwise, 2, 1, 0)                                          \
  X(Entr, "aten::special_entr", Pointwise, 1, 1, 0)                                                \
  X(Trigamma, "aten::polygamma", Pointwise, 1, 1, 0)          /* n == 1; n == 0: Digamma */        \
  X(Angle, "aten::angle", Pointwise, 1, 1, 0)     /* real input; integers: common dtype f32 */     \
  X(RoundDecimals, "aten::round", Pointwise, 1, 1, 1)         /* 10^decimals, decimals > 0 */      \
  X(RoundTens, "aten::round", Pointwise, 1, 1, 1)             /* 10^-decimals, decimals < 0 */     \
  X(LogitBackwardClamped, "aten::logit_backward", Pointwise, 2, 1, 1)   /* eps */                  \
  X(NativeDropoutBackward, "aten::native_dropout_backward", Pointwise, 2, 1, 1)  /* grad, mask (not \
                                                     cast); scale */                               \
  X(Prelu, "aten::_prelu_kernel", Pointwise, 2, 1, 0)         /* self, weight */                   \
  X(PreluBackward, "aten::_prelu_kernel_backward", Pointwise, 3, 2, 0)  /* grad, self, weight;     \
                                                     gradients of self, weight */                  \
  X(Glu, "aten::glu", Pointwise, 2, 1, 0)         /* the two halves of self */                     \
  X(GluBackward, "aten::glu_backward", Pointwise, 3, 2, 0)    /* grad, the halves of self; the     \
                                                     halves of the gradient */
// clang-format on
