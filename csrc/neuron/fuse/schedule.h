// SPDX-License-Identifier: Apache-2.0
//
// From a Graph to a LoopNest of the host target: which schedule, and how operands are accessed.
#pragma once

#include <array>
#include <vector>

#include "neuron/host/loop_nest.h"
#include "neuron/ir/graph.h"
#include "neuron/lower/canonical.h"

namespace neuron {

using AxisStrides = std::array<Stride, kMaxAxes>;

inline Stride stride_class(int64_t stride) {
  return stride == 0 ? Stride::kZero : stride == 1 ? Stride::kUnit : Stride::kAny;
}

// The nest's operands are the graph's inputs, then its outputs; strides are given in that order. A
// graph without axes gets one dim of size 1.
LoopNest schedule(const Graph& graph, Walk walk, const std::vector<AxisStrides>& strides);

// How often the graph visits its rows: 1 plus the longest chain of reductions that a row-varying
// output or a reduction waits for. 0 without row axes.
int pass_count(const Graph& graph);
// The longest chain of reductions that an output waits for.
int reduction_depth(const Graph& graph);

}  // namespace neuron
