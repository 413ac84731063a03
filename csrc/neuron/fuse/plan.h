// SPDX-License-Identifier: Apache-2.0
//
// Plan: how a window runs: an ordered list of steps, each a host call or a kernel.
//
// A plan holds no sizes, strides, addresses or scalar values. It refers to nodes and operands of
// the WindowForm that it was made from, and fits every window with the same key whose sizes satisfy
// `KernelPlan::axes`. Immutable after planning, except for what the executor keeps in `kernel`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "neuron/fuse/axes.h"
#include "neuron/fuse/form.h"
#include "neuron/host/loop_nest.h"
#include "neuron/ir/graph.h"
#include "neuron/lower/lowering.h"

namespace neuron {

class Kernel;  // eager/kernel_table.h

// One operand of a kernel: an operand of a node, walked along the kernel's dims.
struct OperandPlan {
  struct AlongDim {
    int8_t dim = -1;    // canonical dim of the node, -1: does not vary
    uint8_t inner = 0;  // kernel dims that are inner parts of the same canonical dim
  };
  int32_t node = 0;
  uint8_t operand = 0;
  std::array<AlongDim, kMaxAxes> along{};
};

struct ScalarPlan {
  int32_t node = 0;
  ScalarSource source;
};

struct KernelPlan {
  std::vector<int> nodes;
  AxisTable axes;
  std::vector<int> dims;              // axis of each kernel dim; empty for a single element
  std::vector<OperandPlan> operands;  // inputs, then outputs, as in the nest
  std::vector<ScalarPlan> scalars;
  size_t inputs = 0;  // of `operands`
  Graph graph;
  LoopNest nest;
  Kernel* kernel = nullptr;  // of the executor
};

struct Step {
  int host_node = -1;      // a host call, or
  std::vector<int> nodes;  // the operations of a kernel
  KernelPlan fused;
  std::vector<KernelPlan> singles;  // the same operations one by one; empty if there is only one
};

struct Plan {
  std::vector<Step> steps;
};

// One line per step with its operations, and the graph of each kernel.
std::string to_text(const Plan& plan, const WindowForm& form);

}  // namespace neuron
