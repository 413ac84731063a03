// SPDX-License-Identifier: Apache-2.0
#include "neuron/fuse/group.h"

#include <algorithm>

#include "neuron/fuse/schedule.h"

namespace neuron {
namespace {

const FormNode& at(const WindowForm& form, int node) {
  return form.nodes[static_cast<size_t>(node)];
}

// An access as strides along the axes of a group.
std::vector<Strided> access(const WindowForm& form, const Member& m, size_t operand) {
  const Canonical& c = at(form, m.node).canonical;
  std::vector<Strided> result;
  for (int d = 0; d < c.rank(); ++d) {
    result.push_back({m.first_axis + d, c.operands[operand].strides[static_cast<size_t>(d)]});
  }
  return result;
}

bool varies_everywhere(const Canonical& c, size_t operand) {
  for (int d = 0; d < c.rank(); ++d) {
    if (c.operands[operand].strides[static_cast<size_t>(d)] == 0) return false;
  }
  return true;
}

bool contains(const std::vector<int>& list, int item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool divides_integers(const FormNode& node) {
  switch (static_cast<LoweredOp>(node.record->op)) {
    case LoweredOp::kDivTrunc:
    case LoweredOp::kDivFloor:
    case LoweredOp::kFmod:
    case LoweredOp::kRemainder:
      return !is_floating(node.record->outputs[0].dtype);
    default:
      return false;
  }
}

// Positions of an access are checked: a wrong one is an error of the operation.
bool checks_indices(const Graph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(), [](const Value& v) {
    return v.op == IrOp::kWrapIndex || v.op == IrOp::kCheckIndex;
  });
}

bool full_walk(const KernelDims& dims, size_t leaves) {
  return leaves == dims.parallel.size() + dims.rows.size();
}

std::vector<int> member_leaves(const WindowForm& form, const Group& group, const Member& m) {
  std::vector<int> leaves;
  const Canonical& c = at(form, m.node).canonical;
  for (int d = 0; d < c.rank(); ++d) group.axes.leaves(m.first_axis + d, &leaves);
  return leaves;
}

bool has_duplicates(const WindowForm& form, const Group& group) {
  for (const Member& m : group.members) {
    std::vector<int> leaves = member_leaves(form, group, m);
    std::sort(leaves.begin(), leaves.end());
    if (std::adjacent_find(leaves.begin(), leaves.end()) != leaves.end()) return true;
  }
  return false;
}

// Unifies along every edge between members; false if one cannot be inside a kernel.
bool unify(const WindowForm& form, const Group& from, const Member& to, AxisTable* axes) {
  const FormNode& node = at(form, to.node);
  for (int e = node.first_edge; e < node.first_edge + node.edge_count; ++e) {
    const Edge& edge = form.edges[static_cast<size_t>(e)];
    const auto member = std::find_if(from.members.begin(), from.members.end(),
                                     [&](const Member& m) { return m.node == edge.from; });
    if (member == from.members.end()) continue;
    if (edge.link == Link::kOrder) return false;
    // What is overwritten must have been read at the same point and nowhere else.
    if (edge.link == Link::kAligned &&
        (!varies_everywhere(at(form, member->node).canonical, edge.from_operand) ||
         !varies_everywhere(node.canonical, edge.to_operand))) {
      return false;
    }
    if (!axes->unify(access(form, *member, edge.from_operand), access(form, to, edge.to_operand))) {
      return false;
    }
  }
  return true;
}

// Depths of all members, and the passes over the rows that result.
void find_depths(const WindowForm& form, const std::vector<NodeFacts>& facts,
                 const KernelDims& dims, Group* group) {
  group->passes = 0;
  for (Member& m : group->members) {
    m.depth_in = 0;
    const FormNode& node = at(form, m.node);
    for (int e = node.first_edge; e < node.first_edge + node.edge_count; ++e) {
      const Edge& edge = form.edges[static_cast<size_t>(e)];
      if (edge.link != Link::kForward) continue;
      for (const Member& other : group->members) {
        if (other.node == edge.from) m.depth_in = std::max(m.depth_in, other.depth_out);
      }
    }
    const NodeFacts& f = facts[static_cast<size_t>(m.node)];
    m.depth_out = m.depth_in + f.depth;
    if (full_walk(dims, member_leaves(form, *group, m).size()) && !dims.rows.empty()) {
      group->passes = std::max(group->passes, m.depth_in + std::max(1, f.passes));
    }
  }
}

std::vector<int> all_leaves(const WindowForm& form, const Group& group,
                            const std::vector<Member>& members) {
  std::vector<int> result;
  for (const Member& m : members) {
    for (int leaf : member_leaves(form, group, m)) {
      if (!contains(result, leaf)) result.push_back(leaf);
    }
  }
  return result;
}

// Walks that no dependency connects: by operands that both read, else by size alone. Any common
// walk is right for them; these are the ones that reuse what is loaded.
void connect_freely(const WindowForm& form, const std::vector<Member>& members,
                    const std::vector<Member>& added, Group* result) {
  for (const Member& m : members) {
    const FormNode& a = at(form, m.node);
    for (const Member& n : added) {
      const FormNode& b = at(form, n.node);
      for (size_t i = 0; i < a.canonical.operand_count; ++i) {
        for (size_t j = 0; j < b.canonical.operand_count; ++j) {
          if (a.access[i] != b.access[j]) continue;
          AxisTable trial = result->axes;
          if (trial.unify(access(form, m, i), access(form, n, j))) {
            std::swap(result->axes, trial);
            if (has_duplicates(form, *result)) std::swap(result->axes, trial);
          }
        }
      }
    }
  }
  std::vector<int> here = all_leaves(form, *result, members);
  std::vector<int> there = all_leaves(form, *result, added);
  const std::vector<int> before = here;
  std::erase_if(here, [&](int leaf) { return contains(there, leaf); });
  std::erase_if(there, [&](int leaf) { return contains(before, leaf); });
  if (here.size() != there.size()) return;
  for (size_t i = 0; i < here.size(); ++i) {
    if (!result->axes.equate(here[i], there[i])) return;
  }
}

bool any_long_rows(const WindowForm& form, const Group& group) {
  return std::any_of(group.members.begin(), group.members.end(),
                     [&](const Member& m) { return has_long_rows(at(form, m.node).canonical); });
}

}  // namespace

bool has_long_rows(const Canonical& canonical) {
  int64_t rows = 1;
  for (int d = canonical.parallel_rank; d < canonical.rank(); ++d) {
    rows *= canonical.sizes[static_cast<size_t>(d)];
  }
  return rows > kLongRow;
}

NodeFacts node_facts(const FormNode& node) {
  NodeFacts f;
  if (node.host) return f;
  f.lowered = lower(*node.record, node.part, node.canonical);
  f.passes = pass_count(f.lowered.graph);
  f.depth = reduction_depth(f.lowered.graph);
  f.may_raise = divides_integers(node) || checks_indices(f.lowered.graph);
  return f;
}

std::optional<KernelDims> kernel_dims(const WindowForm& form, const Group& group) {
  KernelDims dims;
  bool reduces = false;
  // The row dims are those of the reductions, which agree and keep them whole.
  for (const Member& m : group.members) {
    const Canonical& c = at(form, m.node).canonical;
    if (c.row_rank == 0) continue;
    std::vector<int> rows;
    for (int d = c.parallel_rank; d < c.rank(); ++d) {
      const size_t before = rows.size();
      group.axes.leaves(m.first_axis + d, &rows);
      if (rows.size() != before + 1) return std::nullopt;
    }
    if (reduces && rows != dims.rows) return std::nullopt;
    dims.rows = rows;
    if (!reduces) {
      for (int d = 0; d < c.parallel_rank; ++d) {
        group.axes.leaves(m.first_axis + d, &dims.parallel);
      }
    }
    reduces = true;
  }
  if (!reduces) dims.parallel = member_leaves(form, group, group.members.front());
  std::vector<int> all = dims.parallel;
  all.insert(all.end(), dims.rows.begin(), dims.rows.end());
  if (all.size() > static_cast<size_t>(kMaxAxes)) return std::nullopt;
  std::vector<int> sorted = all;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return std::nullopt;
  for (const Member& m : group.members) {
    std::vector<int> leaves = member_leaves(form, group, m);
    std::sort(leaves.begin(), leaves.end());
    if (std::adjacent_find(leaves.begin(), leaves.end()) != leaves.end()) return std::nullopt;
    if (leaves == sorted) continue;
    const bool one_per_row = reduces && at(form, m.node).canonical.row_rank == 0 &&
                             leaves.size() == dims.parallel.size() &&
                             std::all_of(leaves.begin(), leaves.end(),
                                         [&](int leaf) { return contains(dims.parallel, leaf); });
    if (!one_per_row) return std::nullopt;
  }
  return dims;
}

Group single_group(const WindowForm& form, const std::vector<NodeFacts>& facts, int node) {
  Group group;
  const FormNode& n = at(form, node);
  if (n.host) {
    group.host = true;
    group.members.push_back({node});
    return group;
  }
  const NodeFacts& f = facts[static_cast<size_t>(node)];
  group.members.push_back({node, 0, 0, f.depth});
  for (int d = 0; d < n.canonical.rank(); ++d) {
    group.axes.add(node, d, n.canonical.sizes[static_cast<size_t>(d)]);
  }
  group.walk = n.canonical.walk;
  group.passes = f.passes;
  return group;
}

std::optional<Group> join(const WindowForm& form, const std::vector<NodeFacts>& facts,
                          const Group& group, const Group& added) {
  if (group.host || added.host) return std::nullopt;
  // An operation that may raise runs alone, so that its error is its own.
  for (const Group* g : {&group, &added}) {
    for (const Member& m : g->members) {
      if (facts[static_cast<size_t>(m.node)].may_raise) return std::nullopt;
    }
  }
  if (group.walk != Walk::kPointwise && added.walk != Walk::kPointwise &&
      group.walk != added.walk) {
    return std::nullopt;
  }
  Group result = group;
  const int base = result.axes.append(added.axes);
  std::vector<Member> moved = added.members;
  for (Member& m : moved) m.first_axis += base;
  for (const Member& m : moved) {
    if (!unify(form, group, m, &result.axes)) return std::nullopt;
  }
  // Edges against the direction exist when two grown groups become one.
  Group late = added;
  late.members = moved;
  for (const Member& m : group.members) {
    if (!unify(form, late, m, &result.axes)) return std::nullopt;
  }
  result.members.insert(result.members.end(), moved.begin(), moved.end());
  std::sort(result.members.begin(), result.members.end(),
            [](const Member& a, const Member& b) { return a.node < b.node; });
  if (group.walk == Walk::kPointwise) result.walk = added.walk;
  std::optional<KernelDims> dims = kernel_dims(form, result);
  if (!dims) {
    if (has_duplicates(form, result)) return std::nullopt;
    connect_freely(form, group.members, moved, &result);
    dims = kernel_dims(form, result);
    if (!dims) return std::nullopt;
  }
  find_depths(form, facts, *dims, &result);
  const bool costly_passes =
      result.walk == Walk::kColumn || dims->parallel.empty() || any_long_rows(form, result);
  if (costly_passes && result.passes > std::max({1, group.passes, added.passes})) {
    return std::nullopt;
  }
  return result;
}

}  // namespace neuron
