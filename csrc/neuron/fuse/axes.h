// SPDX-License-Identifier: Apache-2.0
//
// AxisTable: the axes of a fused kernel while it grows, and how their sizes follow from those of
// its nodes.
//
// Every dim of every node starts as an axis of its own. Two nodes that touch the same elements are
// connected by unifying the axes that their accesses run over, which may split an axis into an
// outer and an inner one (a [4096] walk meets a [64, 64] one). An axis that is not split is a
// *leaf*; the leaves are the dims of the kernel.
//
// The table remembers how it was made as data: `evaluate` repeats it for the sizes of another
// window with the same key and says whether they fit.
#pragma once

#include <cstdint>
#include <vector>

#include "neuron/fuse/form.h"

namespace neuron {

// An axis and the stride, in elements, of an access along it.
struct Strided {
  int axis;
  int64_t stride;
};

class AxisTable {
 public:
  // The axis of dim `dim` of `node`.
  int add(int node, int dim, int64_t size);

  // Makes two accesses to the same elements run over the same leaves; axes of stride 0 are ignored.
  // False if their shapes do not match; the table is then of no further use.
  bool unify(std::vector<Strided> a, std::vector<Strided> b);

  // Makes two leaves of one size the same leaf; false if the sizes differ.
  bool equate(int a, int b);

  // Takes over the axes of `other`; axis i of it becomes i + the returned number.
  int append(const AxisTable& other);

  // The leaves of an axis, outer first.
  void leaves(int axis, std::vector<int>* out) const;
  int64_t size(int axis) const { return axes_[static_cast<size_t>(axis)].size; }

  // Sizes of all axes for the geometry of `nodes`; false if they contradict the table.
  bool evaluate(const std::vector<FormNode>& nodes, std::vector<int64_t>* sizes) const;

 private:
  struct Axis {
    int64_t size;
    int node, dim;                         // where the size comes from, or
    int whole, inner;                      // the quotient of two axes; -1
    int same = -1;                         // unified into that axis
    int outer_half = -1, inner_half = -1;  // split
  };

  int find(int axis) const;
  void expand(int axis, int64_t stride, std::vector<Strided>* out) const;
  int split(int axis, int inner);  // returns the outer half

  std::vector<Axis> axes_;
};

}  // namespace neuron
