// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <utility>

#include "neuron/base/error.h"
#include "neuron/host/half.h"
#include "neuron/host/loop_nest.h"

namespace neuron {
namespace {

uint64_t float_bits(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat16:
      return float_to_f16(static_cast<float>(value));
    case DType::kBFloat16:
      return float_to_bf16(static_cast<float>(value));
    case DType::kFloat32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    default:
      return std::bit_cast<uint64_t>(value);
  }
}

}  // namespace

NestBuilder::NestBuilder(Schedule schedule, int parallel_rank, int row_rank) {
  nest_.schedule = schedule;
  nest_.parallel_rank = parallel_rank;
  nest_.row_rank = row_rank;
  NEURON_CHECK(nest_.rank() >= 1 && nest_.rank() <= kMaxNestRank);
}

int NestBuilder::operand(DType dtype, const std::vector<Stride>& strides) {
  NEURON_CHECK(static_cast<int>(strides.size()) == nest_.rank());
  NestOperand o;
  o.dtype = dtype;
  for (size_t d = 0; d < strides.size(); ++d) o.strides[d] = strides[d];
  nest_.operands.push_back(o);
  return static_cast<int>(nest_.operands.size()) - 1;
}

int NestBuilder::scalar_slot(DType dtype) {
  nest_.scalars.push_back(dtype);
  return static_cast<int>(nest_.scalars.size()) - 1;
}

NodeId NestBuilder::add(NestNode n) {
  for (NodeId a : n.args) NEURON_CHECK(a < static_cast<NodeId>(nest_.nodes.size()));
  NodeId id = static_cast<NodeId>(nest_.nodes.size());
  // A load may not move over a store to the same memory, so loads merge only between stores.
  if (op_class(n.op) == NestOpClass::kEffect) {
    std::erase_if(known_,
                  [&](const auto& entry) { return nest_.nodes[entry.second].op == NestOp::kLoad; });
    nest_.nodes.push_back(n);
    return id;
  }
  std::array<int64_t, 7> content{static_cast<int64_t>(n.op),
                                 static_cast<int64_t>(n.dtype),
                                 n.attr,
                                 n.args[0],
                                 n.args[1],
                                 n.args[2],
                                 static_cast<int64_t>(n.bits)};
  auto [place, inserted] = known_.emplace(content, id);
  if (inserted) nest_.nodes.push_back(n);
  return place->second;
}

NodeId NestBuilder::load(int operand, NodeId offset, NodeId mask) {
  NEURON_CHECK(operand >= 0 && operand < static_cast<int>(nest_.operands.size()));
  return add({.op = NestOp::kLoad,
              .dtype = nest_.operands[operand].dtype,
              .attr = operand,
              .args = {offset, mask, kNoNode}});
}

NodeId NestBuilder::scalar(int slot) {
  NEURON_CHECK(slot >= 0 && slot < static_cast<int>(nest_.scalars.size()));
  return add({.op = NestOp::kScalar, .dtype = nest_.scalars[slot], .attr = slot});
}

NodeId NestBuilder::constant(DType dtype, double value) {
  if (!is_floating(dtype)) return constant_int(dtype, static_cast<int64_t>(value));
  return add({.op = NestOp::kConstant, .dtype = dtype, .bits = float_bits(dtype, value)});
}

NodeId NestBuilder::constant_int(DType dtype, int64_t value) {
  if (is_floating(dtype)) return constant(dtype, static_cast<double>(value));
  uint64_t bits = static_cast<uint64_t>(value);
  if (dtype == DType::kBool) {
    bits = value != 0;
  } else if (element_size(dtype) < 8) {
    bits &= (uint64_t{1} << (8 * element_size(dtype))) - 1;
  }
  return constant_bits(dtype, bits);
}

NodeId NestBuilder::constant_bits(DType dtype, uint64_t bits) {
  return add({.op = NestOp::kConstant, .dtype = dtype, .bits = bits});
}

NodeId NestBuilder::index(int dim) {
  return add({.op = NestOp::kIndex, .dtype = DType::kInt64, .attr = dim});
}

NodeId NestBuilder::extent(int dim) {
  return add({.op = NestOp::kExtent, .dtype = DType::kInt64, .attr = dim});
}

NodeId NestBuilder::cast(DType to, NodeId value) {
  if (dtype(value) == to) return value;
  return add({.op = NestOp::kCast, .dtype = to, .args = {value, kNoNode, kNoNode}});
}

NodeId NestBuilder::bitcast(DType to, NodeId value) {
  if (dtype(value) == to) return value;
  return add({.op = NestOp::kBitcast, .dtype = to, .args = {value, kNoNode, kNoNode}});
}

NodeId NestBuilder::unary(NestOp op, NodeId value) {
  return add({.op = op, .dtype = dtype(value), .args = {value, kNoNode, kNoNode}});
}

NodeId NestBuilder::binary(NestOp op, NodeId a, NodeId b) {
  DType result = op_class(op) == NestOpClass::kCompare ? DType::kBool : dtype(a);
  return add({.op = op, .dtype = result, .args = {a, b, kNoNode}});
}

NodeId NestBuilder::select(NodeId condition, NodeId a, NodeId b) {
  return add({.op = NestOp::kSelect, .dtype = dtype(a), .args = {condition, a, b}});
}

NodeId NestBuilder::fma(NodeId a, NodeId b, NodeId c) {
  return add({.op = NestOp::kFma, .dtype = dtype(a), .args = {a, b, c}});
}

NodeId NestBuilder::philox(NodeId key, NodeId counter_low, NodeId counter_high, int word) {
  return add({.op = NestOp::kPhilox,
              .dtype = DType::kInt32,
              .attr = word,
              .args = {key, counter_low, counter_high}});
}

NodeId NestBuilder::reduce(NestOp op, NodeId value) {
  bool arg = op == NestOp::kArgMax || op == NestOp::kArgMin;
  return add(
      {.op = op, .dtype = arg ? DType::kInt64 : dtype(value), .args = {value, kNoNode, kNoNode}});
}

NodeId NestBuilder::scan(NestOp op, NodeId value) { return unary(op, value); }

void NestBuilder::store(int operand, NodeId value, NodeId offset, NodeId mask) {
  store_combine(NestOp::kStore, operand, value, offset, mask);
}

void NestBuilder::store_combine(NestOp op, int operand, NodeId value, NodeId offset, NodeId mask) {
  add({.op = op, .dtype = dtype(value), .attr = operand, .args = {value, offset, mask}});
}

LoopNest NestBuilder::finish() {
  known_.clear();
  LoopNest nest = std::exchange(nest_, LoopNest{});
  verify(nest);
  return nest;
}

}  // namespace neuron
