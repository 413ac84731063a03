// SPDX-License-Identifier: Apache-2.0
//
// ListTiles: tiles of an elementwise operation over lists of tensors (foreach, fused optimizers).
//
// The lists have one length; the tensors at one index belong together. Where they share one dense
// geometry they are cut into flat pieces, else they stay whole; neighbouring pieces form tiles of
// enough work. If tensors of different indices overlap in memory and one is written, everything is
// one tile in list order, as PyTorch would compute it.
//
//   ListTiles tiles({params, grads}, /*written=*/0b01);
//   tiles.run([](const ListTiles::Tile& tile) { kernel(tile.lists[0], tile.lists[1]); });
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "neuron/base/function_ref.h"

namespace neuron::glue {

class ListTiles {
 public:
  struct Tile {
    std::vector<std::vector<at::Tensor>> lists;  // pieces, list by list
    std::vector<size_t> indices;                 // of each piece: the index in the original lists
  };

  // Views of aliases, which outlive this object. Bit i of `written`: list i is written.
  ListTiles(std::vector<at::TensorList> lists, uint32_t written);

  // Calls `body` for each tile, on the pool.
  void run(FunctionRef<void(const Tile&)> body) const;

 private:
  struct Piece {
    size_t index;
    int64_t begin;
    int64_t count;  // -1: the whole tensor as it is
  };

  bool conflicts() const;
  bool flat(size_t index) const;
  void cut();
  at::Tensor piece_of(size_t list, const Piece& piece) const;

  std::vector<at::TensorList> lists_;
  uint32_t written_;
  std::vector<Piece> pieces_;
  std::vector<size_t> tile_ends_;  // tile i: pieces [tile_ends_[i - 1], tile_ends_[i])
};

}  // namespace neuron::glue
