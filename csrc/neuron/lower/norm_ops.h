// SPDX-License-Identifier: Apache-2.0
//
// Part of the operator table (op_table.h): norms beside layer norm. Words, S structural and V
// value:
//
//   S0  batch norm: 0; group norm: number of groups; RMS norm: number of normalised trailing dims;
//       weight norm: the dim that is kept (not negative)
//   S1  mask of present operands, bit i = operand i of the list on the right; the record's inputs
//       are the present ones in that order
//   S2  mask of wanted outputs of a backward operation, bit i = output i of the list on the right;
//       the record's outputs are the wanted ones in that order. Forward operations: 0, all outputs.
//   V   the op's own values, f64
//
// Inputs of batch and group norm have dims N, C, ... (batch norm 2 to 6 dims, group norm 2 to 5).
// Operands and results that are one number a channel have shape [C], statistics of a group norm
// [N, groups], those of an RMS norm the input's shape with the normalised dims 1. Everything is
// computed in the input's opmath type and rounded to each output's dtype.
#pragma once

// clang-format off
#define NEURON_NORM_OPS(X)                                                                         \
  /* training. Operands: input, weight, bias, running_mean, running_var (both or neither).         \
     Outputs: out, save_mean, save_invstd; then, if present, the updated running_mean and          \
     running_var: the operands' own memory. V momentum, eps */                                     \
  X(BatchNorm, "aten::native_batch_norm", BatchNorm, 5, 5, 2)                                      \
  /* evaluation. Operands as above, running ones present. Output: out. V eps */                    \
  X(BatchNormInference, "aten::native_batch_norm", BatchNormInference, 5, 1, 1)                    \
  /* training. Operands: grad_out, input, weight, save_mean, save_invstd. Outputs: gradients of    \
     input, weight, bias */                                                                        \
  X(BatchNormBackward, "aten::native_batch_norm_backward", BatchNormBackward, 5, 3, 0)             \
  /* evaluation. Operands: grad_out, input, weight, running_mean, running_var. V eps */            \
  X(BatchNormInferenceBackward, "aten::native_batch_norm_backward", BatchNormInferenceBackward,    \
    5, 3, 1)                                                                                       \
  /* operands: input, weight, bias; outputs: out, mean, rstd. V eps */                             \
  X(GroupNorm, "aten::native_group_norm", GroupNorm, 3, 3, 1)                                      \
  /* operands: grad_out, input, mean, rstd, weight; outputs: gradients of input, weight, bias */   \
  X(GroupNormBackward, "aten::native_group_norm_backward", GroupNormBackward, 5, 3, 0)             \
  /* operands: input, weight; outputs: out, rstd. V eps (None: the opmath type's epsilon) */       \
  X(RmsNorm, "aten::_fused_rms_norm", RmsNorm, 2, 2, 1)                                            \
  /* operands: grad_out, input, rstd, weight; outputs: gradients of input, weight */               \
  X(RmsNormBackward, "aten::_fused_rms_norm_backward", RmsNormBackward, 4, 2, 0)                   \
  /* operands: v, g; outputs: w, norms. g and norms have v's rank, all dims but the kept one 1 */  \
  X(WeightNorm, "aten::_weight_norm_interface", WeightNorm, 2, 2, 0)                               \
  /* operands: grad_w, saved_v, saved_g, saved_norms; outputs: gradients of v, g (always both) */  \
  X(WeightNormBackward, "aten::_weight_norm_interface_backward", WeightNorm, 4, 2, 0)
// clang-format on
