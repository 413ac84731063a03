// SPDX-License-Identifier: Apache-2.0
//
// Row gathers and their gradients: index_select (PyTorch's embedding is one) and
// embedding_dense_backward. The gradient tiles the table, not the indices: each row is summed by one
// thread in the order of the indices.
#include <ATen/Dispatch.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/index_select_cpu_dispatch.h>
#include <torch/library.h>

#include <vector>

#include "torch/lowered_call.h"
#include "torch/op_call.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;

at::DimVector check_index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  TORCH_CHECK_INDEX(index.dim() <= 1, "Index is supposed to be a vector");
  TORCH_CHECK(!(self.dim() == 0 && index.numel() != 1),
              "index_select(): Index to scalar can have only 1 value, got ", index.numel(),
              " value(s)");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index but got ",
              index.scalar_type());
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  if (self.dim() > 0) sizes[static_cast<size_t>(dim)] = index.numel();
  return sizes;
}

void record_index_select(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index) {
  if (index_select(out, self, dim, index)) return;
  OpCall call("aten::index_select");
  call.write(out);
  call.read(self);
  call.read(index);
  call.record(Split::kNone, [dim](const Tensor* t) {
    if (dim != 0 || t[1].dim() == 0 || t[2].dim() == 0 || !t[0].is_contiguous()) {
      at::cpu::index_select_out(out_of(t[0]), t[1], dim, t[2]);
      return;
    }
    const int64_t rows = t[2].numel();
    const int64_t step = rows_per_tile(rows, rows == 0 ? 1 : t[0].numel() / rows);
    for_tiles(rows, step, [&](int64_t, int64_t begin, int64_t count) {
      Tensor out = slice(t[0], 0, begin, count);
      at::cpu::index_select_out(out, t[1], 0, slice(t[2], 0, begin, count));
    });
  });
}

Tensor select_rows(const Tensor& self, int64_t dim, const Tensor& index) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  Tensor out = empty(check_index_select(self, dim, index), self.scalar_type(), self.device());
  record_index_select(out, self, dim, index);
  return out;
}

Tensor& select_rows_out(const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  dim = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "index_select(): self and result must have the same scalar type");
  at::native::resize_output(out, check_index_select(self, dim, index));
  record_index_select(out, self, dim, index);
  return out;
}

// ---- gradient ------------------------------------------------------------------------------------

struct Table {
  int64_t rows, width, padding_row;
};

// Adds the gradient rows whose index lies in [first, last) to the table's rows.
template <typename scalar_t, typename index_t>
void scatter_rows(scalar_t* table, const scalar_t* grad, const index_t* indices, int64_t count,
                  const Table& shape, const std::vector<int64_t>& uses, int64_t first,
                  int64_t last) {
  std::fill(table + first * shape.width, table + last * shape.width, scalar_t(0));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = indices[i];
    if (row < first || row >= last || row == shape.padding_row) continue;
    scalar_t* __restrict to = table + row * shape.width;
    const scalar_t* __restrict from = grad + i * shape.width;
    if (uses.empty()) {
      for (int64_t j = 0; j < shape.width; ++j) to[j] += from[j];
    } else {
      const auto scale = static_cast<scalar_t>(1.0 / static_cast<double>(uses[row]));
      for (int64_t j = 0; j < shape.width; ++j) to[j] += from[j] * scale;
    }
  }
}

void embedding_gradient(const Tensor& out, const Tensor& grad, const Tensor& indices,
                        const Table& shape, bool scale_by_frequency) {
  const int64_t count = indices.numel();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, out.scalar_type(), "embedding_dense_backward", [&] {
        AT_DISPATCH_INDEX_TYPES(indices.scalar_type(), "embedding_dense_backward", [&] {
          const auto* index = indices.const_data_ptr<index_t>();
          std::vector<int64_t> uses(scale_by_frequency ? static_cast<size_t>(shape.rows) : 0);
          for (int64_t i = 0; i < count; ++i) {
            const int64_t row = index[i];
            TORCH_CHECK_INDEX(row == shape.padding_row || (row >= 0 && row < shape.rows),
                              "embedding: index ", row, " is out of range for ", shape.rows,
                              " rows");
            if (scale_by_frequency && row != shape.padding_row) ++uses[static_cast<size_t>(row)];
          }
          // A tile reads every index, so it has to own a good part of the table.
          const int64_t step = std::max(rows_per_tile(shape.rows, shape.width),
                                        tile_count(shape.rows, 8));
          const int64_t tiles_rows = count * shape.width < kTileElements ? shape.rows : step;
          for_tiles(shape.rows, std::min(tiles_rows, std::max<int64_t>(1, shape.rows)),
                    [&](int64_t, int64_t begin, int64_t rows) {
                      scatter_rows(out.data_ptr<scalar_t>(), grad.const_data_ptr<scalar_t>(),
                                   index, count, shape, uses, begin, begin + rows);
                    });
        });
      });
}

Tensor embedding_dense_backward(const Tensor& grad, const Tensor& indices, int64_t rows,
                                int64_t padding_row, bool scale_by_frequency) {
  TORCH_CHECK(indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
              "Expected tensor for argument #2 'indices' to have one of the following scalar ",
              "types: Long, Int; but got ", indices.scalar_type(), " instead");
  const int64_t width = grad.size(-1);
  Tensor out = empty({rows, width}, grad.scalar_type(), grad.device());
  if (!scale_by_frequency && embedding_backward(out, grad, indices, padding_row)) return out;
  OpCall call("aten::embedding_dense_backward");
  call.write(out);
  call.read(grad);
  call.read(indices);
  call.record(Split::kNone, [=](const Tensor* t) {
    embedding_gradient(t[0], t[1].contiguous(), t[2].contiguous(), {rows, width, padding_row},
                       scale_by_frequency);
  });
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("index_select", select_rows);
  m.impl("index_select.out", select_rows_out);
  m.impl("embedding_dense_backward", embedding_dense_backward);
}

}  // namespace
}  // namespace neuron::glue
