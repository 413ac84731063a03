// SPDX-License-Identifier: Apache-2.0
//
// build_kernel: the members' graphs become one graph over the kernel's dims, and that a loop nest.
#include <algorithm>
#include <map>
#include <tuple>

#include "neuron/base/error.h"
#include "neuron/fuse/group.h"
#include "neuron/fuse/schedule.h"

namespace neuron {
namespace {

class KernelBuilder {
 public:
  KernelBuilder(const WindowForm& form, const std::vector<NodeFacts>& facts, const Group& group,
                bool store_all)
      : form_(form), facts_(facts), group_(group), store_all_(store_all) {
    const std::optional<KernelDims> dims = kernel_dims(form, group);
    NEURON_CHECK(dims.has_value());
    plan_.dims = dims->parallel;
    parallel_ = static_cast<int>(dims->parallel.size());
    rows_ = static_cast<int>(dims->rows.size());
    plan_.dims.insert(plan_.dims.end(), dims->rows.begin(), dims->rows.end());
    plan_.axes = group.axes;
    for (const Member& m : group.members) plan_.nodes.push_back(m.node);
  }

  KernelPlan run() {
    GraphBuilder b(parallel_, rows_);
    for (const Member& m : group_.members) add_member(m, &b);
    std::vector<OperandPlan> outputs;
    for (const Member& m : group_.members) add_outputs(m, &b, &outputs);
    if (outputs.empty()) return {};
    drop_unused_inputs(b);
    plan_.inputs = plan_.operands.size();
    plan_.operands.insert(plan_.operands.end(), outputs.begin(), outputs.end());
    plan_.graph = finish_graph(b);
    std::vector<AxisStrides> strides;
    for (const OperandPlan& o : plan_.operands) strides.push_back(stride_classes(o));
    plan_.nest = schedule(plan_.graph, group_.walk, strides);
    return std::move(plan_);
  }

 private:
  const FormNode& node(int n) const { return form_.nodes[static_cast<size_t>(n)]; }

  int position(int leaf) const {
    const auto found = std::find(plan_.dims.begin(), plan_.dims.end(), leaf);
    NEURON_CHECK(found != plan_.dims.end());
    return static_cast<int>(found - plan_.dims.begin());
  }

  OperandPlan operand_plan(const Member& m, size_t operand) const {
    OperandPlan o;
    o.node = m.node;
    o.operand = static_cast<uint8_t>(operand);
    const Canonical& c = node(m.node).canonical;
    for (int d = 0; d < c.rank(); ++d) {
      if (c.operands[operand].strides[static_cast<size_t>(d)] == 0) continue;
      std::vector<int> leaves;
      group_.axes.leaves(m.first_axis + d, &leaves);
      unsigned inner = 0;
      for (size_t k = leaves.size(); k-- > 0;) {
        const int p = position(leaves[k]);
        o.along[static_cast<size_t>(p)] = {static_cast<int8_t>(d), static_cast<uint8_t>(inner)};
        inner |= 1u << p;
      }
    }
    return o;
  }

  AxisMask axes_of(const OperandPlan& o) const {
    unsigned mask = 0;
    for (size_t p = 0; p < plan_.dims.size(); ++p) {
      if (o.along[p].dim >= 0) mask |= 1u << p;
    }
    return static_cast<AxisMask>(mask);
  }

  std::array<int64_t, kMaxAxes> strides(const OperandPlan& o) const {
    const CanonicalOperand& operand = node(o.node).canonical.operands[o.operand];
    std::array<int64_t, kMaxAxes> result{};
    for (size_t p = 0; p < plan_.dims.size(); ++p) {
      if (o.along[p].dim < 0) continue;
      int64_t stride = operand.strides[static_cast<size_t>(o.along[p].dim)];
      for (size_t q = 0; q < plan_.dims.size(); ++q) {
        if ((o.along[p].inner >> q & 1) != 0) stride *= group_.axes.size(plan_.dims[q]);
      }
      result[p] = stride;
    }
    return result;
  }

  AxisStrides stride_classes(const OperandPlan& o) const {
    AxisStrides classes{};
    const std::array<int64_t, kMaxAxes> s = strides(o);
    for (size_t p = 0; p < plan_.dims.size(); ++p) classes[p] = stride_class(s[p]);
    return classes;
  }

  // The value of an input: forwarded from a member, or loaded; equal loads are one.
  ValueId input_value(const Member& m, size_t operand, GraphBuilder* b) {
    const FormNode& n = node(m.node);
    for (int e = n.first_edge; e < n.first_edge + n.edge_count; ++e) {
      const Edge& edge = form_.edges[static_cast<size_t>(e)];
      if (edge.link != Link::kForward || edge.to_operand != operand) continue;
      const auto result = results_.find({edge.from, edge.from_operand});
      if (result != results_.end()) return result->second.value;
    }
    const OperandPlan o = operand_plan(m, operand);
    const std::pair key(n.access[operand], strides(o));
    const auto [place, inserted] = loads_.emplace(key, 0);
    if (inserted) {
      place->second = b->add_input(n.canonical.operands[operand].ref->dtype, axes_of(o));
      plan_.operands.push_back(o);
    }
    return b->input(place->second);
  }

  void add_member(const Member& m, GraphBuilder* b) {
    const FormNode& n = node(m.node);
    const NodeFacts& f = facts_[static_cast<size_t>(m.node)];
    std::vector<std::vector<int>> axis_map;
    for (int d = 0; d < n.canonical.rank(); ++d) {
      std::vector<int>& dims = axis_map.emplace_back();
      group_.axes.leaves(m.first_axis + d, &dims);
      for (int& leaf : dims) leaf = position(leaf);
    }
    std::vector<ValueId> inputs;
    std::vector<size_t> outputs;
    for (size_t i = 0; i < n.canonical.operand_count; ++i) {
      if (n.canonical.operands[i].output) {
        outputs.push_back(i);
      } else {
        inputs.push_back(input_value(m, i, b));
      }
    }
    std::vector<int> scalars;
    for (const ScalarSource& s : f.lowered.scalars) {
      scalars.push_back(b->add_scalar(s.dtype));
      plan_.scalars.push_back({m.node, s});
    }
    const std::vector<GraphOutput> results = b->append(f.lowered.graph, axis_map, inputs, scalars);
    for (size_t o = 0; o < outputs.size(); ++o) {
      results_[{m.node, static_cast<uint8_t>(outputs[o])}] = results[o];
    }
  }

  bool is_member(int n) const {
    return std::find(plan_.nodes.begin(), plan_.nodes.end(), n) != plan_.nodes.end();
  }

  bool must_store(const Member& m, size_t operand) const {
    if (store_all_ || facts_[static_cast<size_t>(m.node)].may_raise) return true;
    const bool temporary = node(m.node).temporary[operand];
    for (size_t to = static_cast<size_t>(m.node) + 1; to < form_.nodes.size(); ++to) {
      const FormNode& n = form_.nodes[to];
      for (int e = n.first_edge; e < n.first_edge + n.edge_count; ++e) {
        const Edge& edge = form_.edges[static_cast<size_t>(e)];
        if (edge.from != m.node) continue;
        const bool same = edge.from_operand == operand || edge.from_operand == Edge::kWholeNode;
        if (!same) continue;
        const bool inside = is_member(static_cast<int>(to));
        // A later member writes the same elements again.
        if (inside && edge.link == Link::kAligned) return false;
        if (temporary && !inside) return true;
      }
    }
    return !temporary;
  }

  void add_outputs(const Member& m, GraphBuilder* b, std::vector<OperandPlan>* outputs) {
    const Canonical& c = node(m.node).canonical;
    for (size_t i = 0; i < c.operand_count; ++i) {
      if (!c.operands[i].output || !must_store(m, i)) continue;
      const OperandPlan o = operand_plan(m, i);
      GraphOutput output = results_.at({m.node, static_cast<uint8_t>(i)});
      output.axes = axes_of(o);
      b->output(output);
      outputs->push_back(o);
    }
  }

  // Loads that only eliminated operations need are no operands of the kernel.
  void drop_unused_inputs(const GraphBuilder& b) {
    const Graph& g = b.graph();
    std::vector<bool> needed(g.values.size(), false);
    for (const GraphOutput& o : g.outputs) {
      for (ValueId id : {o.value, o.offset, o.mask}) {
        if (id != kNoValue) needed[static_cast<size_t>(id)] = true;
      }
    }
    used_.assign(g.inputs.size(), false);
    used_scalars_.assign(g.scalars.size(), false);
    for (size_t i = g.values.size(); i-- > 0;) {
      if (!needed[i]) continue;
      const Value& v = g.values[i];
      if (v.op == IrOp::kInput || v.op == IrOp::kGather) used_[static_cast<size_t>(v.attr)] = true;
      if (v.op == IrOp::kScalar) used_scalars_[static_cast<size_t>(v.attr)] = true;
      for (ValueId a : v.args) {
        if (a != kNoValue) needed[static_cast<size_t>(a)] = true;
      }
    }
    size_t i = 0;
    std::erase_if(plan_.operands, [&](const OperandPlan&) { return !used_[i++]; });
    size_t s = 0;
    std::erase_if(plan_.scalars, [&](const ScalarPlan&) { return !used_scalars_[s++]; });
  }

  Graph finish_graph(GraphBuilder& b) {
    Graph g = b.finish();
    const auto renumber = [](const std::vector<bool>& used) {
      std::vector<int> map;
      int next = 0;
      for (bool u : used) map.push_back(u ? next++ : -1);
      return map;
    };
    const std::vector<int> inputs = renumber(used_), scalars = renumber(used_scalars_);
    for (Value& v : g.values) {
      if (v.op == IrOp::kInput || v.op == IrOp::kGather) {
        v.attr = inputs[static_cast<size_t>(v.attr)];
      }
      if (v.op == IrOp::kScalar) v.attr = scalars[static_cast<size_t>(v.attr)];
    }
    size_t i = 0;
    std::erase_if(g.inputs, [&](const GraphInput&) { return !used_[i++]; });
    size_t s = 0;
    std::erase_if(g.scalars, [&](DType) { return !used_scalars_[s++]; });
    verify(g);
    return g;
  }

  const WindowForm& form_;
  const std::vector<NodeFacts>& facts_;
  const Group& group_;
  const bool store_all_;
  int parallel_ = 0, rows_ = 0;
  KernelPlan plan_;
  std::map<std::pair<int, uint8_t>, GraphOutput> results_;  // by node and output operand
  std::map<std::pair<int32_t, std::array<int64_t, kMaxAxes>>, int> loads_;
  std::vector<bool> used_, used_scalars_;
};

}  // namespace

KernelPlan build_kernel(const WindowForm& form, const std::vector<NodeFacts>& facts,
                        const Group& group, bool store_all) {
  return KernelBuilder(form, facts, group, store_all).run();
}

}  // namespace neuron
