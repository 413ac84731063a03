// SPDX-License-Identifier: Apache-2.0
#include "neuron/fuse/schedule.h"

#include <algorithm>
#include <bit>

#include "neuron/base/error.h"

namespace neuron {
namespace {

NestOp nest_op(IrOp op) {
  switch (op) {
#define NEURON_NEST_OP_CASE(op, text, cls) \
  case IrOp::k##op:                        \
    return NestOp::k##op;
    NEURON_IR_COMPUTE(NEURON_NEST_OP_CASE)
#undef NEURON_NEST_OP_CASE
    default:
      throw_internal(__FILE__, __LINE__, "a leaf has no operation");
  }
}

NodeId constant(NestBuilder& b, const Value& v) {
  if (v.dtype == DType::kFloat64) return b.constant(v.dtype, std::bit_cast<double>(v.bits));
  if (v.dtype == DType::kFloat32) {
    return b.constant(v.dtype, std::bit_cast<float>(static_cast<uint32_t>(v.bits)));
  }
  return b.constant_int(v.dtype, static_cast<int64_t>(v.bits));
}

NestOp store_op(Combine combine) {
  switch (combine) {
    case Combine::kStore:
      return NestOp::kStore;
    case Combine::kAdd:
      return NestOp::kStoreAdd;
    case Combine::kMul:
      return NestOp::kStoreMul;
    case Combine::kMax:
      return NestOp::kStoreMax;
    case Combine::kMin:
      return NestOp::kStoreMin;
  }
  throw_internal(__FILE__, __LINE__, "unknown way to combine");
}

// Per value: reductions that must have finished before it can be computed.
std::vector<int> depths(const Graph& graph) {
  std::vector<int> depth(graph.values.size(), 0);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    for (ValueId a : graph.values[i].args) {
      if (a == kNoValue) continue;
      const bool reduced = op_class(graph.values[static_cast<size_t>(a)].op) == IrOpClass::kReduce;
      depth[i] = std::max(depth[i], depth[static_cast<size_t>(a)] + (reduced ? 1 : 0));
    }
  }
  return depth;
}

Schedule choose(const Graph& graph, Walk walk) {
  if (graph.row_axes == 0) return Schedule::kPointwise;
  const bool one_pass = pass_count(graph) <= 1;
  // Rows that must be visited in order.
  bool ordered = false;
  for (const Value& v : graph.values) ordered |= op_class(v.op) == IrOpClass::kScan;
  for (const GraphOutput& o : graph.outputs) ordered |= o.scattered();
  if (walk == Walk::kColumn) {
    return one_pass && !ordered ? Schedule::kColumn : Schedule::kSequential;
  }
  // A full reduction has one row only: its chunks are the parallel work.
  return graph.parallel_axes == 0 && one_pass && !ordered ? Schedule::kSplit : Schedule::kRow;
}

}  // namespace

int pass_count(const Graph& graph) {
  if (graph.row_axes == 0) return 0;
  const std::vector<int> depth = depths(graph);
  int passes = 1;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (op_class(graph.values[i].op) == IrOpClass::kReduce) passes = std::max(passes, depth[i] + 1);
  }
  for (const GraphOutput& o : graph.outputs) {
    const bool reduced =
        op_class(graph.values[static_cast<size_t>(o.value)].op) == IrOpClass::kReduce;
    if ((o.axes & graph.row_mask()) == 0) continue;
    passes = std::max(passes, depth[static_cast<size_t>(o.value)] + (reduced ? 2 : 1));
  }
  return passes;
}

int reduction_depth(const Graph& graph) {
  const std::vector<int> depth = depths(graph);
  int deepest = 0;
  for (const GraphOutput& o : graph.outputs) {
    const bool reduced =
        op_class(graph.values[static_cast<size_t>(o.value)].op) == IrOpClass::kReduce;
    deepest = std::max(deepest, depth[static_cast<size_t>(o.value)] + (reduced ? 1 : 0));
  }
  return deepest;
}

LoopNest schedule(const Graph& graph, Walk walk, const std::vector<AxisStrides>& strides) {
  NEURON_CHECK(strides.size() == graph.inputs.size() + graph.outputs.size());
  const int parallel = graph.axes() == 0 ? 1 : graph.parallel_axes;
  NestBuilder b(choose(graph, walk), parallel, graph.row_axes);
  const auto operand = [&](DType dtype, size_t number) {
    const AxisStrides& s = strides[number];
    const int rank = parallel + graph.row_axes;
    return b.operand(dtype, std::vector<Stride>(s.begin(), s.begin() + rank));
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i) operand(graph.inputs[i].dtype, i);
  std::vector<int> outputs;
  for (size_t o = 0; o < graph.outputs.size(); ++o) {
    const Value& v = graph.values[static_cast<size_t>(graph.outputs[o].value)];
    outputs.push_back(operand(v.dtype, graph.inputs.size() + o));
  }
  for (DType scalar : graph.scalars) b.scalar_slot(scalar);

  std::vector<NodeId> nodes;
  nodes.reserve(graph.values.size());
  const auto node = [&](ValueId id) {
    return id == kNoValue ? kNoNode : nodes[static_cast<size_t>(id)];
  };
  const auto arg = [&](const Value& v, size_t k) { return node(v.args[k]); };
  for (const Value& v : graph.values) {
    NodeId n = kNoNode;
    switch (op_class(v.op)) {
      case IrOpClass::kLeaf:
        if (v.op == IrOp::kInput) n = b.load(v.attr);
        if (v.op == IrOp::kScalar) n = b.scalar(v.attr);
        if (v.op == IrOp::kIndex) n = b.index(v.attr);
        if (v.op == IrOp::kExtent) n = b.extent(v.attr);
        if (v.op == IrOp::kConstant) n = constant(b, v);
        break;
      case IrOpClass::kUnary:
        if (v.op == IrOp::kCast) {
          n = b.cast(v.dtype, arg(v, 0));
        } else if (v.op == IrOp::kBitcast) {
          n = b.bitcast(v.dtype, arg(v, 0));
        } else {
          n = b.unary(nest_op(v.op), arg(v, 0));
        }
        break;
      case IrOpClass::kBinary:
      case IrOpClass::kCompare:
        n = b.binary(nest_op(v.op), arg(v, 0), arg(v, 1));
        break;
      case IrOpClass::kTernary:
        if (v.op == IrOp::kSelect) n = b.select(arg(v, 0), arg(v, 1), arg(v, 2));
        if (v.op == IrOp::kFma) n = b.fma(arg(v, 0), arg(v, 1), arg(v, 2));
        if (v.op == IrOp::kPhilox) n = b.philox(arg(v, 0), arg(v, 1), arg(v, 2), v.attr);
        break;
      case IrOpClass::kReduce:
        n = b.reduce(nest_op(v.op), arg(v, 0));
        break;
      case IrOpClass::kScan:
        n = b.scan(nest_op(v.op), arg(v, 0));
        break;
      case IrOpClass::kGather:
        n = b.load(v.attr, arg(v, 0), arg(v, 1));
        break;
    }
    nodes.push_back(n);
  }
  // All loads come before all stores, so an output may be the memory of an input.
  for (size_t o = 0; o < outputs.size(); ++o) {
    const GraphOutput& output = graph.outputs[o];
    b.store_combine(store_op(output.combine), outputs[o], node(output.value), node(output.offset),
                    node(output.mask));
  }
  return b.finish();
}

}  // namespace neuron
