// SPDX-License-Identifier: Apache-2.0
//
// Fusion: from a WindowForm to a Plan.
//
// Nodes join the kernel of a producer where all of these hold:
//   - every dependency on a member is a value that can be forwarded, or an overwrite of exactly the
//     elements that the member touches at the same point of the walk;
//   - the walks match: their axes unify, pointwise members cover the kernel's whole space (or, in a
//     kernel with reductions, all of its parallel dims), reductions share their row dims, which are
//     never split, and the direction of their walk;
//   - everything else that the node waits for can run before the kernel, and nothing that runs
//   before
//     waits for it;
//   - the row stays in cache: no further pass over long rows, over the only row, or over columns.
// Two kernels that a node reads from become one under the same conditions. A temporary whose
// readers are all in its kernel is never written to memory.
//
// Numbers are those of the operations one by one: a kernel holds the same values with the same
// roundings, and the trees of its reductions follow from the nodes alone.
#pragma once

#include "neuron/fuse/plan.h"

namespace neuron {

struct FusionOptions {
  bool fuse = true;    // false: every operation is a kernel of its own
  int max_nodes = 48;  // per kernel
  int max_operands = 40;
};

Plan make_plan(const WindowForm& form, const FusionOptions& options = {});

}  // namespace neuron
