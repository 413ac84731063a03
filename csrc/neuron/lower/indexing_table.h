// SPDX-License-Identifier: Apache-2.0
//
// The operator table's section of indexing and movement. How op, inputs, outputs and attributes of
// a record are filled follows op_table.h; this comment adds the families below. All of them have
// four structural words S0 to S3 (unused ones are 0), then value words V (f64, or i64 where the
// text says so; "of the dtype": an f64 for a floating tensor, else an i64).
//
// Index tensors are of any integer dtype but bool (masks are turned into positions first: a shape
// that depends on data). "wraps": negative indices count from the end. An index out of range is an
// error of the operation when it runs (kOutOfRange); no memory outside the tensor is touched.
// The caller raises where a tensor that is read or written at computed places has no elements, and
// records 0-dim tensors as tensors of one dim of size 1 where a dim is named.
//
// index read: self, indices... -> result.   S0 first, S1 rank, S2 mask, no V.
//   Dims of self in the mask (bit d = dim d) are addressed by the indices, one index tensor each,
//   in order; at most 8. The index tensors broadcast to an index space of `rank` dims, which are
//   dims [first, first + rank) of the result. The result's other dims are self's other dims in
//   order.
//     Embedding     first 0, rank of the indices, mask 1          does not wrap
//     IndexSelect   first dim, rank 1, mask 1 << dim              does not wrap
//     Index         x[i, :, j] ...: PyTorch's rule: rank is that of the broadcast indices; first is
//                   the first indexed dim if indexed dims are adjacent, else 0       wraps
//                   take: with self flattened (a view, or a copy recorded before), mask 1.
//   Gather is different: the index has all dims of the result, S0 = dim, S1 unused, S2 1 << dim;
//   other dims of self are at least as large as the index's.    does not wrap
//
// index write: self, indices..., value -> result.   S0 first, S1 rank, S2 mask as above, with the
//   dims of `value` in the place of an index read's result (broadcast to it); S3 1 if the value is
//   a host scalar: V0, of the dtype.
//   A result that is not self's own memory becomes a copy of self first. Values are of self's
//   dtype. Positions that are written several times take the values in the order of their elements,
//   each step rounded: the same result in every run, with any number of threads.
//     IndexPut, IndexPutAdd   index_put, accumulate false and true; put_ with self flattened: wrap
//     IndexAdd                index_add with alpha 1; other alphas: multiply the source before
//     IndexCopy               index_copy
//     IndexFill               index_fill; a 0-dim tensor value is a tensor     wraps
//     EmbeddingBackward       grad, indices -> weight's gradient: first 0, rank of indices, mask 1;
//                             V0 padding_idx (i64, -1: none). scale_grad_by_freq is not lowered.
//   As Gather (S0 = dim, S1 unused, S2 1 << dim); the value may be larger than the index:
//     Scatter       src or value
//     ScatterAdd    scatter_add, scatter with reduce="add", scatter_reduce "sum" with include_self
//     ScatterMul, ScatterMax, ScatterMin     scatter_reduce "prod" (not of bool), "amax", "amin"
//     Scatter...Only                         the same and "sum" with include_self=False
//
// window read: movement by computed positions; none can fail, all fuse with their consumers.
//   Pad             self -> result. constant_pad_nd; S1 mask of padded dims; V0 fill, of the
//                   dtype, then per padded dim in order the padding at its begin (i64). Where
//                   padding is negative narrow self first (a view). Slice and select backward with
//                   step 1 are pads by 0.
//   ReflectionPad, ReplicationPad   the same without V0
//   Cat             two to four inputs -> result, of the result's shape but for dim S0. Inputs may
//                   have other dtypes: they are converted.
//
// nll loss: self, target, weight (optional) -> loss[, total_weight].
//   S0 class dim of self (the last of one dim, else 1), S1 1 if there is a weight, S2 reduction (0
//   none, 1 mean, 2 sum). V0 ignore_index (i64). total_weight is an output for mean and sum only;
//   for none it is 0 (fill it), but for 1-dim self: record that one with reduction sum.
//   Targets out of range are errors as above.
// nll loss backward: grad, target, weight (optional), total_weight (mean only) -> grad of self.
//   Words as before; `grad` has no dims for mean and sum. Cannot fail and fuses with its consumer
//   (log_softmax backward).
//
// Movement that is written with operations of op_table.h:
//   cat of more inputs, stack    Copy of each input into its slice of the result. It fuses with the
//                                producer of the input; Cat fuses with consumers, and reads all its
//                                inputs' masks for each element: better for few inputs.
//   flip              Copy from a reference with negative strides along the flipped dims, whose
//                     offset is that of self's last element along them. (Negative strides are
//                     allowed in inputs of every operation.)
//   roll              Cat of self's two parts along the dim; several dims one after the other
//   repeat            Copy from self with dims of stride 0 to the result viewed as
//                     [times, size, times, size ...] (at most 6 dims after dropping ones of size 1)
//   repeat_interleave by an int: the same with [size, times]
//   one_hot, masked_fill, tril, ...   pointwise
//
// Errors and fusion: an operation that checks indices is a kernel of its own: its error is its own
// and poisons its results alone. It runs even if nothing reads its result. Its consumers fuse with
// each other; window reads and nll_loss_backward check nothing and fuse like pointwise operations.
#pragma once

#include <cstdint>

namespace neuron {

constexpr uint16_t kFirstIndexingOp = 1024;
constexpr size_t kIndexingWords = 4;

// X(enumerator, ATen name, family, operands, outputs, own value words at most); append only.
// clang-format off
#define NEURON_INDEXING_OPS(X)                                                                     \
  X(Embedding, "aten::embedding", IndexRead, 2, 1, 0)                                              \
  X(IndexSelect, "aten::index_select", IndexRead, 2, 1, 0)                                         \
  X(Index, "aten::index", IndexRead, 9, 1, 0)                                                      \
  X(Gather, "aten::gather", IndexRead, 2, 1, 0)                                                    \
  X(IndexPut, "aten::index_put", IndexWrite, 10, 1, 1)                                             \
  X(IndexPutAdd, "aten::index_put", IndexWrite, 10, 1, 1)                                          \
  X(IndexAdd, "aten::index_add", IndexWrite, 3, 1, 0)                                              \
  X(IndexCopy, "aten::index_copy", IndexWrite, 3, 1, 0)                                            \
  X(IndexFill, "aten::index_fill", IndexWrite, 3, 1, 1)                                            \
  X(EmbeddingBackward, "aten::embedding_dense_backward", IndexWrite, 2, 1, 1)                      \
  X(Scatter, "aten::scatter", IndexWrite, 3, 1, 1)                                                 \
  X(ScatterAdd, "aten::scatter_add", IndexWrite, 3, 1, 1)                                          \
  X(ScatterMul, "aten::scatter_reduce", IndexWrite, 3, 1, 1)                                       \
  X(ScatterMax, "aten::scatter_reduce", IndexWrite, 3, 1, 1)                                       \
  X(ScatterMin, "aten::scatter_reduce", IndexWrite, 3, 1, 1)                                       \
  X(ScatterAddOnly, "aten::scatter_reduce", IndexWrite, 3, 1, 0)                                   \
  X(ScatterMulOnly, "aten::scatter_reduce", IndexWrite, 3, 1, 0)                                   \
  X(ScatterMaxOnly, "aten::scatter_reduce", IndexWrite, 3, 1, 0)                                   \
  X(ScatterMinOnly, "aten::scatter_reduce", IndexWrite, 3, 1, 0)                                   \
  X(Pad, "aten::constant_pad_nd", WindowRead, 1, 1, 7)                                             \
  X(ReflectionPad, "aten::reflection_pad", WindowRead, 1, 1, 6)                                    \
  X(ReplicationPad, "aten::replication_pad", WindowRead, 1, 1, 6)                                  \
  X(Cat, "aten::cat", WindowRead, 4, 1, 0)                                                         \
  X(NllLoss, "aten::nll_loss_forward", NllLoss, 3, 2, 1)                                           \
  X(NllLossBackward, "aten::nll_loss_backward", NllLossBackward, 4, 1, 1)
// clang-format on

}  // namespace neuron
