// SPDX-License-Identifier: Apache-2.0
//
// The single-op kernels that the package ships: which operations, dtypes and layouts real programs
// meet, as loop nests.
//
// A kernel knows no sizes, and of strides only whether they are 0, 1 or other, so a few layouts of
// an operation serve all its calls. Nests are not written here: every entry is an OpRecord with
// small sizes that goes the way of a recorded one, through analysis and planning. What the list
// lacks is compiled when a program meets it.
//
// To add operations of a family, extend the operator table; to add a family, write its function in
// shipped_kernels.cpp and call it from add_op.
#pragma once

#include <vector>

#include "neuron/host/loop_nest.h"
#include "neuron/lower/op_table.h"

namespace neuron {

// The kernels of all operations, each once, in a fixed order.
std::vector<LoopNest> shipped_kernels();

// Those of one operation.
std::vector<LoopNest> shipped_kernels(LoweredOp op);

}  // namespace neuron
