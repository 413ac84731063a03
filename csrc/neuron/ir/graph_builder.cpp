// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <utility>

#include "neuron/base/error.h"
#include "neuron/ir/graph.h"

namespace neuron {
GraphBuilder::GraphBuilder(int parallel_axes, int row_axes) {
  graph_.parallel_axes = parallel_axes;
  graph_.row_axes = row_axes;
  NEURON_CHECK(graph_.axes() <= kMaxAxes);
}

int GraphBuilder::add_input(DType dtype, AxisMask axes) {
  graph_.inputs.push_back({dtype, axes});
  return static_cast<int>(graph_.inputs.size()) - 1;
}

int GraphBuilder::add_scalar(DType dtype) {
  graph_.scalars.push_back(dtype);
  return static_cast<int>(graph_.scalars.size()) - 1;
}

ValueId GraphBuilder::add(Value v) {
  if (op_class(v.op) != IrOpClass::kLeaf) {
    v.axes = 0;
    for (ValueId a : v.args) {
      if (a != kNoValue) v.axes |= value(a).axes;
    }
    if (op_class(v.op) == IrOpClass::kReduce) v.axes &= graph_.parallel_mask();
    if (op_class(v.op) == IrOpClass::kScan) v.axes |= graph_.row_mask();
    if (op_class(v.op) == IrOpClass::kGather) {
      v.axes |= graph_.inputs[static_cast<size_t>(v.attr)].axes;
    }
  }
  const auto id = static_cast<ValueId>(graph_.values.size());
  const std::array<int64_t, 7> content{static_cast<int64_t>(v.op),
                                       static_cast<int64_t>(v.dtype),
                                       v.attr,
                                       v.args[0],
                                       v.args[1],
                                       v.args[2],
                                       static_cast<int64_t>(v.bits)};
  const auto [place, inserted] = known_.emplace(content, id);
  if (inserted) graph_.values.push_back(v);
  return place->second;
}

ValueId GraphBuilder::input(int number) {
  const GraphInput& in = graph_.inputs.at(static_cast<size_t>(number));
  return add({.op = IrOp::kInput, .dtype = in.dtype, .axes = in.axes, .attr = number});
}

ValueId GraphBuilder::scalar(int number) {
  const DType dtype = graph_.scalars.at(static_cast<size_t>(number));
  return add({.op = IrOp::kScalar, .dtype = dtype, .attr = number});
}

ValueId GraphBuilder::constant(DType dtype, double value) {
  if (!is_floating(dtype)) return constant_int(dtype, static_cast<int64_t>(value));
  if (dtype == DType::kFloat64) {
    return add({.op = IrOp::kConstant, .dtype = dtype, .bits = std::bit_cast<uint64_t>(value)});
  }
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return convert(dtype, add({.op = IrOp::kConstant, .dtype = DType::kFloat32, .bits = bits}));
}

ValueId GraphBuilder::constant_int(DType dtype, int64_t value) {
  if (is_floating(dtype)) return constant(dtype, static_cast<double>(value));
  auto bits = static_cast<uint64_t>(value);
  if (dtype == DType::kBool) {
    bits = value != 0;
  } else if (element_size(dtype) < 8) {
    bits &= (uint64_t{1} << (8 * element_size(dtype))) - 1;
  }
  return add({.op = IrOp::kConstant, .dtype = dtype, .bits = bits});
}

ValueId GraphBuilder::index(int axis) {
  return add({.op = IrOp::kIndex,
              .dtype = DType::kInt64,
              .axes = static_cast<AxisMask>(1u << axis),
              .attr = axis});
}

ValueId GraphBuilder::extent(int axis) {
  return add({.op = IrOp::kExtent, .dtype = DType::kInt64, .attr = axis});
}

ValueId GraphBuilder::convert(DType to, ValueId v) {
  if (dtype(v) == to) return v;
  return add({.op = IrOp::kCast, .dtype = to, .args = {v, kNoValue, kNoValue}});
}

ValueId GraphBuilder::bitcast(DType to, ValueId v) {
  if (dtype(v) == to) return v;
  return add({.op = IrOp::kBitcast, .dtype = to, .args = {v, kNoValue, kNoValue}});
}

ValueId GraphBuilder::unary(IrOp op, ValueId v) {
  return add({.op = op, .dtype = dtype(v), .args = {v, kNoValue, kNoValue}});
}

ValueId GraphBuilder::binary(IrOp op, ValueId a, ValueId b) {
  const DType result = op_class(op) == IrOpClass::kCompare ? DType::kBool : dtype(a);
  return add({.op = op, .dtype = result, .args = {a, b, kNoValue}});
}

ValueId GraphBuilder::select(ValueId condition, ValueId a, ValueId b) {
  return add({.op = IrOp::kSelect, .dtype = dtype(a), .args = {condition, a, b}});
}

ValueId GraphBuilder::fma(ValueId a, ValueId b, ValueId c) {
  return add({.op = IrOp::kFma, .dtype = dtype(a), .args = {a, b, c}});
}

ValueId GraphBuilder::philox(ValueId key, ValueId low, ValueId high, int word) {
  return add({.op = IrOp::kPhilox, .dtype = DType::kInt32, .attr = word, .args = {key, low, high}});
}

ValueId GraphBuilder::reduce(IrOp op, ValueId v) {
  const bool arg = op == IrOp::kArgMax || op == IrOp::kArgMin;
  return add({.op = op, .dtype = arg ? DType::kInt64 : dtype(v), .args = {v, kNoValue, kNoValue}});
}

ValueId GraphBuilder::scan(IrOp op, ValueId v) { return unary(op, v); }

ValueId GraphBuilder::gather(int number, ValueId offset, ValueId mask) {
  return add({.op = IrOp::kGather,
              .dtype = graph_.inputs.at(static_cast<size_t>(number)).dtype,
              .attr = number,
              .args = {offset, mask, kNoValue}});
}

int GraphBuilder::output(ValueId value, AxisMask axes) {
  return output(GraphOutput{.value = value, .axes = axes});
}

int GraphBuilder::output(const GraphOutput& output) {
  graph_.outputs.push_back(output);
  return static_cast<int>(graph_.outputs.size()) - 1;
}

ValueId GraphBuilder::position(const std::vector<int>& axes) {
  ValueId result = index(axes.front());
  for (size_t k = 1; k < axes.size(); ++k) {
    result = binary(IrOp::kAdd, binary(IrOp::kMul, result, extent(axes[k])), index(axes[k]));
  }
  return result;
}

ValueId GraphBuilder::length(const std::vector<int>& axes) {
  ValueId result = extent(axes.front());
  for (size_t k = 1; k < axes.size(); ++k) result = binary(IrOp::kMul, result, extent(axes[k]));
  return result;
}

std::vector<GraphOutput> GraphBuilder::append(const Graph& other,
                                              const std::vector<std::vector<int>>& axis_map,
                                              const std::vector<ValueId>& inputs,
                                              const std::vector<int>& scalars) {
  std::vector<ValueId> map;
  map.reserve(other.values.size());
  for (Value v : other.values) {
    if (v.op == IrOp::kInput) {
      map.push_back(inputs[static_cast<size_t>(v.attr)]);
      continue;
    }
    if (v.op == IrOp::kScalar) v.attr = scalars[static_cast<size_t>(v.attr)];
    if (v.op == IrOp::kIndex || v.op == IrOp::kExtent) {
      const std::vector<int>& axes = axis_map[static_cast<size_t>(v.attr)];
      map.push_back(v.op == IrOp::kIndex ? position(axes) : length(axes));
      continue;
    }
    if (v.op == IrOp::kGather) {
      const Value& input = value(inputs[static_cast<size_t>(v.attr)]);
      NEURON_CHECK(input.op == IrOp::kInput);
      v.attr = input.attr;
    }
    for (ValueId& a : v.args) {
      if (a != kNoValue) a = map[static_cast<size_t>(a)];
    }
    map.push_back(add(v));
  }
  std::vector<GraphOutput> outputs = other.outputs;
  for (GraphOutput& o : outputs) {
    for (ValueId* id : {&o.value, &o.offset, &o.mask}) {
      if (*id != kNoValue) *id = map[static_cast<size_t>(*id)];
    }
  }
  return outputs;
}

Graph GraphBuilder::finish() {
  known_.clear();
  Graph graph = std::exchange(graph_, Graph{});
  std::vector<bool> needed(graph.values.size(), false);
  for (const GraphOutput& o : graph.outputs) {
    for (ValueId id : {o.value, o.offset, o.mask}) {
      if (id != kNoValue) needed[static_cast<size_t>(id)] = true;
    }
  }
  for (size_t i = graph.values.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (ValueId a : graph.values[i].args) {
      if (a != kNoValue) needed[static_cast<size_t>(a)] = true;
    }
  }
  std::vector<ValueId> map(graph.values.size(), kNoValue);
  std::vector<Value> kept;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!needed[i]) continue;
    Value v = graph.values[i];
    for (ValueId& a : v.args) {
      if (a != kNoValue) a = map[static_cast<size_t>(a)];
    }
    map[i] = static_cast<ValueId>(kept.size());
    kept.push_back(v);
  }
  graph.values = std::move(kept);
  for (GraphOutput& o : graph.outputs) {
    for (ValueId* id : {&o.value, &o.offset, &o.mask}) {
      if (*id != kNoValue) *id = map[static_cast<size_t>(*id)];
    }
  }
  verify(graph);
  return graph;
}

}  // namespace neuron
