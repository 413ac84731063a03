// SPDX-License-Identifier: Apache-2.0
//
// Tiling inside the body of a record, for operations that a Split cannot describe: several loops,
// partial sums, operands whose rows do not line up. Tiles depend on sizes only, so results do not
// depend on the number of threads.
//
//   const int64_t step = rows_per_tile(rows, row_elements);
//   for_tiles(rows, step, [&](int64_t tile, int64_t begin, int64_t count) {
//     kernel(rows_of(t[0], begin, count, row_elements), ...);
//   });
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "neuron/host/thread_pool.h"
#include "torch/alias.h"

namespace neuron::glue {

inline constexpr int64_t kTileElements = 32 * 1024;
inline constexpr int64_t kMostTiles = 64;

// How many of `rows` rows of `row_elements` elements make a tile that outweighs its hand-out.
inline int64_t rows_per_tile(int64_t rows, int64_t row_elements) {
  const int64_t enough = kTileElements / std::max<int64_t>(1, row_elements);
  return std::max({int64_t{1}, enough, (rows + kMostTiles - 1) / kMostTiles});
}

inline int64_t tile_count(int64_t extent, int64_t step) { return (extent + step - 1) / step; }

// Calls body(tile, begin, count) for consecutive ranges of [0, extent), in any order, on the pool.
template <typename Body>
void for_tiles(int64_t extent, int64_t step, const Body& body) {
  const int64_t tiles = tile_count(extent, step);
  if (tiles == 1) {
    body(int64_t{0}, int64_t{0}, extent);
    return;
  }
  IntraOpPool::instance().run(tiles, [&](int64_t tile) {
    HostScope scope;
    const int64_t begin = tile * step;
    body(tile, begin, std::min(step, extent - begin));
  });
}

// An alias with other geometry over the same storage, `offset` elements further on.
at::Tensor geometry(const at::Tensor& alias, at::IntArrayRef sizes, at::IntArrayRef strides,
                    int64_t offset);

// Rows [begin, begin + count) of a contiguous alias seen as rows of `row_elements` elements.
inline at::Tensor rows_of(const at::Tensor& alias, int64_t begin, int64_t count,
                          int64_t row_elements) {
  if (!alias.defined()) return alias;
  return geometry(alias, {count, row_elements}, {row_elements, 1}, begin * row_elements);
}

// Elements [begin, begin + count) of a contiguous alias.
inline at::Tensor span_of(const at::Tensor& alias, int64_t begin, int64_t count) {
  if (!alias.defined()) return alias;
  return geometry(alias, {count}, {1}, begin);
}

// slice() along dimension 0 that lets undefined tensors through.
inline at::Tensor batch_of(const at::Tensor& alias, int64_t begin, int64_t count) {
  return alias.defined() ? slice(alias, 0, begin, count) : alias;
}

inline at::Tensor contiguous(const at::Tensor& alias) {
  return alias.defined() ? alias.contiguous() : alias;
}

// Per-tile buffers of a result that is a sum over tiles: `partial(tile)` is the result itself if
// there is one tile; `finish` adds the buffers in tile order.
class PartialSums {
 public:
  // `result` may be undefined (not wanted). It must be contiguous.
  PartialSums(const at::Tensor& result, int64_t tiles);
  at::Tensor partial(int64_t tile) const;
  void finish();

 private:
  at::Tensor result_;
  at::Tensor buffers_;  // [tiles, *result.sizes()], undefined for one tile
};

// ---- outputs -------------------------------------------------------------------------------------

// An uninitialised tensor like `tensor`, with its strides if they are dense.
at::Tensor new_like(const at::Tensor& tensor, at::ScalarType dtype);
inline at::Tensor new_like(const at::Tensor& tensor) {
  return new_like(tensor, tensor.scalar_type());
}
// As above, in the memory format that the strides suggest.
at::Tensor new_like(const at::Tensor& tensor, at::MemoryFormat format);

inline const at::Tensor& get(const std::optional<at::Tensor>& tensor) {
  static const at::Tensor undefined;
  return tensor.has_value() ? *tensor : undefined;
}

// An operand as an argument of an ATen call: an output, an optional tensor.
inline at::Tensor& out_of(const at::Tensor& operand) { return const_cast<at::Tensor&>(operand); }
inline std::optional<at::Tensor> maybe(const at::Tensor& operand) {
  return operand.defined() ? std::optional(operand) : std::nullopt;
}

}  // namespace neuron::glue
