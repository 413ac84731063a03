// SPDX-License-Identifier: Apache-2.0
//
// Group: the operations of one kernel while fusion is at work, and the checks that they fit
// together.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "neuron/fuse/axes.h"
#include "neuron/fuse/form.h"
#include "neuron/fuse/plan.h"
#include "neuron/lower/lowering.h"

namespace neuron {

struct Member {
  int node = 0;
  int first_axis = 0;  // its canonical dim d is axis first_axis + d
  int depth_in = 0;    // reductions of the kernel that its inputs wait for
  int depth_out = 0;
};

struct Group {
  bool host = false;
  std::vector<Member> members;  // in record order
  AxisTable axes;
  Walk walk = Walk::kPointwise;
  int passes = 0;        // over the rows
  std::set<int> after;   // groups that must run before
  std::set<int> before;  // groups that must run after
  int64_t position = 0;  // in the order of execution
};

// What lowering tells fusion about a node.
struct NodeFacts {
  Lowered lowered;
  int passes = 0;
  int depth = 0;
  bool may_raise = false;  // must run even if nothing reads its result
};
NodeFacts node_facts(const FormNode& node);

// The dims of a kernel: leaves of the parallel dims in walking order, then of the row dims.
struct KernelDims {
  std::vector<int> parallel;
  std::vector<int> rows;
};
// nullopt if the members do not share one iteration space.
std::optional<KernelDims> kernel_dims(const WindowForm& form, const Group& group);

// A group of one node.
Group single_group(const WindowForm& form, const std::vector<NodeFacts>& facts, int node);

// `group` and `added` as one, unified along the edges from members of `group` to those of `added`;
// nullopt if they do not fit. Order of execution is not looked at.
std::optional<Group> join(const WindowForm& form, const std::vector<NodeFacts>& facts,
                          const Group& group, const Group& added);

// The kernel of a group. `store_all`: results that no other step reads are written as well.
// No outputs: nothing needs the group.
KernelPlan build_kernel(const WindowForm& form, const std::vector<NodeFacts>& facts,
                        const Group& group, bool store_all);

}  // namespace neuron
