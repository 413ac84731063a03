// SPDX-License-Identifier: Apache-2.0
#include "torch/ops/list_tiles.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>

#include "torch/ops/tiles.h"

namespace neuron::glue {
namespace {

struct Interval {
  uintptr_t begin, end;
  size_t list, index;
};

Interval interval_of(const at::Tensor& t, size_t list, size_t index) {
  const auto begin = reinterpret_cast<uintptr_t>(t.const_data_ptr());
  const size_t bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
  return {begin, begin + bytes, list, index};
}

}  // namespace

ListTiles::ListTiles(std::vector<at::TensorList> lists, uint32_t written)
    : lists_(std::move(lists)), written_(written) {
  if (!conflicts()) {
    cut();
    return;
  }
  for (size_t i = 0; i < lists_[0].size(); ++i) pieces_.push_back({i, 0, -1});
  if (!pieces_.empty()) tile_ends_.push_back(pieces_.size());
}

bool ListTiles::conflicts() const {
  std::vector<Interval> intervals;
  intervals.reserve(lists_.size() * lists_[0].size());
  for (size_t list = 0; list < lists_.size(); ++list) {
    for (size_t i = 0; i < lists_[list].size(); ++i) {
      const at::Tensor& t = lists_[list][i];
      if (t.defined() && t.numel() > 0) intervals.push_back(interval_of(t, list, i));
    }
  }
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  // The interval that reaches furthest so far, of all and of the written ones. An overlap with any
  // earlier interval is an overlap with these.
  const Interval* furthest = nullptr;
  const Interval* furthest_written = nullptr;
  const auto clash = [](const Interval* a, const Interval& b) {
    if (a == nullptr || b.begin >= a->end) return false;
    return a->index != b.index || a->begin != b.begin || a->end != b.end;
  };
  for (const Interval& interval : intervals) {
    const bool written = written_ >> interval.list & 1;
    if (clash(furthest_written, interval) || (written && clash(furthest, interval))) return true;
    if (furthest == nullptr || interval.end > furthest->end) furthest = &interval;
    if (written && (furthest_written == nullptr || interval.end > furthest_written->end)) {
      furthest_written = &interval;
    }
  }
  return false;
}

bool ListTiles::flat(size_t index) const {
  const at::Tensor& first = lists_[0][index];
  if (!first.is_non_overlapping_and_dense()) return false;
  return std::all_of(lists_.begin() + 1, lists_.end(), [&](const at::TensorList& list) {
    const at::Tensor& t = list[index];
    return t.sizes() == first.sizes() && t.strides() == first.strides();
  });
}

void ListTiles::cut() {
  int64_t pending = 0;
  for (size_t i = 0; i < lists_[0].size(); ++i) {
    const int64_t numel = lists_[0][i].numel();
    const bool cuttable = numel > kTileElements && flat(i);
    for (int64_t begin = 0; begin < std::max<int64_t>(numel, 1);) {
      const int64_t count = cuttable ? std::min(kTileElements, numel - begin) : numel;
      pieces_.push_back({i, begin, cuttable ? count : -1});
      pending += count;
      if (pending >= kTileElements) {
        tile_ends_.push_back(pieces_.size());
        pending = 0;
      }
      begin += std::max<int64_t>(count, 1);
    }
  }
  if (tile_ends_.empty() || tile_ends_.back() != pieces_.size()) {
    tile_ends_.push_back(pieces_.size());
  }
}

at::Tensor ListTiles::piece_of(size_t list, const Piece& piece) const {
  const at::Tensor& t = lists_[list][piece.index];
  return piece.count < 0 ? t : span_of(t, piece.begin, piece.count);
}

void ListTiles::run(FunctionRef<void(const Tile&)> body) const {
  for_tiles(static_cast<int64_t>(tile_ends_.size()), 1, [&](int64_t i, int64_t, int64_t) {
    const auto tile = static_cast<size_t>(i);
    Tile part;
    part.lists.resize(lists_.size());
    for (size_t p = tile == 0 ? 0 : tile_ends_[tile - 1]; p < tile_ends_[tile]; ++p) {
      for (size_t list = 0; list < lists_.size(); ++list) {
        part.lists[list].push_back(piece_of(list, pieces_[p]));
      }
      part.indices.push_back(pieces_[p].index);
    }
    body(part);
  });
}

}  // namespace neuron::glue
