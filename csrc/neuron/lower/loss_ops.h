// SPDX-License-Identifier: Apache-2.0
//
// Part of the operator table (op_table.h): scans and losses. Words, S structural and V value:
//
//   scan        S0 common dtype (what the input is cast to), S1 dim (not negative; 0 for 0-dim
//               inputs). Outputs have the input's shape.
//   loss        S0 common dtype, S1 mask of present operands, S2 reduction (0 none, 1 mean, 2 sum).
//               V  the op's own values, f64. Operands broadcast; without a reduction to the output,
//               with one the output has a single element.
//
// Sums and products of a scan accumulate in f64 for f32 and f64, in f32 for f16 and bf16.
#pragma once

// clang-format off
#define NEURON_SCAN_OPS(X)                                                                         \
  X(Cumsum, "aten::cumsum", Scan, 1, 1, 0) X(Cumprod, "aten::cumprod", Scan, 1, 1, 0)              \
  X(Cummax, "aten::cummax", Scan, 1, 2, 0)        /* values, indices (i64); common dtype: self's */\
  X(Cummin, "aten::cummin", Scan, 1, 2, 0)

#define NEURON_LOSS_OPS(X)                                                                         \
  X(MseLoss, "aten::mse_loss", Loss, 2, 1, 0)                                                      \
  X(SmoothL1Loss, "aten::smooth_l1_loss", Loss, 2, 1, 1)      /* beta */                           \
  X(HuberLoss, "aten::huber_loss", Loss, 2, 1, 1)             /* delta */                          \
  X(BinaryCrossEntropy, "aten::binary_cross_entropy", Loss, 3, 1, 0)  /* self, target, weight */   \
  /* pointwise: grad_output, self, target; first value: 1, or 1 / numel for the mean. For          \
     mse_loss_backward see MseLossBackward */                                                      \
  X(SmoothL1LossBackward, "aten::smooth_l1_loss_backward", Pointwise, 3, 1, 2)  /* norm, beta */   \
  X(HuberLossBackward, "aten::huber_loss_backward", Pointwise, 3, 1, 2)         /* norm, delta */  \
  X(BinaryCrossEntropyBackward, "aten::binary_cross_entropy_backward", Pointwise, 3, 1, 1)         \
  X(BinaryCrossEntropyWeightedBackward, "aten::binary_cross_entropy_backward", Pointwise, 4, 1, 1)
// clang-format on
