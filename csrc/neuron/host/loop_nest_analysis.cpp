// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/loop_nest_analysis.h"

#include <algorithm>
#include <limits>

#include "neuron/host/kernel_args.h"

namespace neuron {
namespace {

constexpr int kRecomputeBudget = 5;  // simple nodes that are cheaper than a row buffer

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool is_simple(NestOp op) {
  switch (op) {
    case NestOp::kCast:
    case NestOp::kBitcast:
    case NestOp::kNeg:
    case NestOp::kAbs:
    case NestOp::kNot:
    case NestOp::kAdd:
    case NestOp::kSub:
    case NestOp::kMul:
    case NestOp::kMax:
    case NestOp::kMin:
    case NestOp::kSelect:
    case NestOp::kFma:
    case NestOp::kIndex:
      return true;
    default:
      return op_class(op) == NestOpClass::kCompare;
  }
}

}  // namespace

int64_t kept_size(DType t) {
  return t == DType::kFloat16 || t == DType::kBFloat16 ? 4 : static_cast<int64_t>(element_size(t));
}

int64_t partial_size(const LoopNest& nest, NodeId reduction) {
  const NestNode& n = nest.nodes[reduction];
  bool arg = n.op == NestOp::kArgMax || n.op == NestOp::kArgMin;
  return kept_size(nest.nodes[n.args[0]].dtype) + (arg ? 8 : 0);
}

NestAnalysis::NestAnalysis(const LoopNest& nest) : nest_(nest) {
  for (int d = nest.parallel_rank; d < nest.rank(); ++d) row_mask_ |= 1u << d;
  size_t count = nest.nodes.size();
  dims_.resize(count);
  pass_.resize(count);
  buffer_.assign(count, -1);
  first_store_pass_ = std::numeric_limits<int>::max();
  find_dims();
  find_passes();
  // A later pass comes first: what it reads back decides what earlier passes must keep.
  pass_nodes_.resize(std::max(passes_, 1));
  for (int p = static_cast<int>(pass_nodes_.size()) - 1; p >= 0; --p) collect_pass(p);
  std::sort(buffered_.begin(), buffered_.end());
  for (size_t k = 0; k < buffered_.size(); ++k) buffer_[buffered_[k]] = static_cast<int>(k);
}

void NestAnalysis::find_dims() {
  for (size_t id = 0; id < nest_.nodes.size(); ++id) {
    const NestNode& n = nest_.nodes[id];
    uint32_t mask = 0;
    for (NodeId a : n.args)
      if (a != kNoNode) mask |= dims_[a];
    NestOpClass cls = op_class(n.op);
    if (n.op == NestOp::kLoad || cls == NestOpClass::kEffect)
      for (int d = 0; d < nest_.rank(); ++d)
        if (nest_.operands[n.attr].strides[d] != Stride::kZero) mask |= 1u << d;
    if (n.op == NestOp::kIndex) mask |= 1u << n.attr;
    if (cls == NestOpClass::kReduce) {
      mask &= ~row_mask_;
      reductions_.push_back(static_cast<NodeId>(id));
    }
    // A scan carries state along the row, whatever it scans. Stores that combine do the same.
    bool carries =
        cls == NestOpClass::kScan || (cls == NestOpClass::kEffect && n.op != NestOp::kStore);
    if (carries) mask |= row_mask_;
    if (carries && nest_.schedule == Schedule::kSequential) mask |= 1u << nest_.vector_dim();
    // Along a row everything that varies is kept as vectors.
    bool by_rows = nest_.schedule == Schedule::kRow || nest_.schedule == Schedule::kSplit;
    if (by_rows && (mask & row_mask_) != 0) mask |= 1u << nest_.vector_dim();
    dims_[id] = mask;
  }
}

void NestAnalysis::find_passes() {
  bool rows = nest_.row_rank > 0;
  for (size_t id = 0; id < nest_.nodes.size(); ++id) {
    const NestNode& n = nest_.nodes[id];
    int p = 0;
    for (NodeId a : n.args) {
      if (a == kNoNode) continue;
      bool reduction = op_class(nest_.nodes[a].op) == NestOpClass::kReduce;
      p = std::max(p, reduction ? pass_[a] + 1 : pass_[a]);
    }
    pass_[id] = p;
    bool in_pass = rows && (varies_over_rows(static_cast<NodeId>(id)) ||
                            op_class(n.op) == NestOpClass::kReduce);
    if (in_pass) passes_ = std::max(passes_, p + 1);
    if (in_pass && op_class(n.op) == NestOpClass::kEffect)
      first_store_pass_ = std::min(first_store_pass_, p);
  }
}

bool NestAnalysis::recomputable(NodeId id, int reader_pass, int* budget) const {
  if (!varies_over_rows(id)) return true;
  const NestNode& n = nest_.nodes[id];
  if (buffer_[id] >= 0) return true;
  if (n.op == NestOp::kLoad) {
    if (reader_pass > first_store_pass_ || n.args[0] != kNoNode || n.args[1] != kNoNode)
      return false;
  } else if (!is_simple(n.op)) {
    return false;
  }
  if (--*budget < 0) return false;
  for (NodeId a : n.args)
    if (a != kNoNode && !recomputable(a, reader_pass, budget)) return false;
  return true;
}

void NestAnalysis::collect_pass(int p) {
  size_t count = nest_.nodes.size();
  std::vector<bool> needed(count, false);
  for (size_t k = count; k-- > 0;) {
    NodeId id = static_cast<NodeId>(k);
    const NestNode& n = nest_.nodes[id];
    bool in_rows = nest_.row_rank == 0 || varies_over_rows(id);
    NestOpClass cls = op_class(n.op);
    if (pass_[id] == p) {
      if (cls == NestOpClass::kReduce) needed[id] = true;
      if (cls == NestOpClass::kEffect && in_rows) needed[id] = true;
      if (buffer_[id] >= 0) needed[id] = true;
    }
    if (!needed[id]) continue;
    if (pass_[id] < p && in_rows) {
      // Computed by an earlier pass: read back, or computed again.
      int budget = kRecomputeBudget;
      if (buffer_[id] >= 0 || !recomputable(id, p, &budget)) {
        if (buffer_[id] < 0) {
          buffer_[id] = static_cast<int>(buffered_.size());
          buffered_.push_back(id);
        }
        continue;  // in pass_nodes_ as a read
      }
    }
    for (NodeId a : n.args)
      if (a != kNoNode && (nest_.row_rank == 0 || varies_over_rows(a))) needed[a] = true;
  }
  for (size_t k = 0; k < count; ++k)
    if (needed[k]) pass_nodes_[p].push_back(static_cast<NodeId>(k));
}

WorkShape NestAnalysis::work(const int64_t* extents) const {
  const LoopNest& n = nest_;
  WorkShape w;
  int64_t outer = 1, rows = 1, row_outer = 1;
  for (int d = 0; d < n.parallel_rank; ++d) outer *= extents[d];
  for (int d = n.parallel_rank; d < n.rank(); ++d) rows *= extents[d];
  for (int d = n.parallel_rank; d < n.rank() - 1; ++d) row_outer *= extents[d];
  int64_t columns = n.parallel_rank > 0 ? extents[n.parallel_rank - 1] : 1;
  int64_t inner = n.row_rank > 0 ? extents[n.rank() - 1] : 1;
  auto padded = [](int64_t v) { return ceil_div(v, kLanes) * kLanes; };
  int64_t kept = 0, partial = 0;
  for (NodeId b : buffered_) kept += kept_size(n.nodes[b].dtype);
  for (NodeId r : reductions_) partial += partial_size(n, r);

  switch (n.schedule) {
    case Schedule::kPointwise:
      w.items[0] = outer;
      break;
    case Schedule::kRow:
      w.items[0] = outer;
      w.cost[0] = std::max<int64_t>(1, rows * std::max(passes_, 1));
      w.scratch_bytes = kept * row_outer * padded(inner);
      break;
    case Schedule::kSplit: {
      int64_t pieces = ceil_div(inner, kRowChunk);
      int64_t group =
          pieces > 1 ? 1 : std::max<int64_t>(1, kRowChunk / std::max<int64_t>(inner, 1));
      int64_t chunks = ceil_div(row_outer, group) * pieces;
      w.phases = 2;
      w.items[0] = outer * chunks;
      w.items[1] = outer;
      w.cost[0] = std::max<int64_t>(1, std::min(rows, kRowChunk));
      w.cost[1] = std::max<int64_t>(1, chunks);
      w.scratch_bytes = partial * outer * chunks;
      w.shared_scratch = true;
      break;
    }
    case Schedule::kColumn: {
      int64_t lead = columns > 0 ? outer / columns : 0;
      int64_t chunks = ceil_div(rows, kColumnChunk);
      int64_t blocks = ceil_div(columns, kColumnBlock);
      w.phases = 2;
      w.items[0] = lead * chunks * blocks;
      w.items[1] = lead * blocks;
      w.cost[0] =
          std::max<int64_t>(1, std::min(rows, kColumnChunk) * std::min(columns, kColumnBlock));
      w.cost[1] = std::max<int64_t>(1, chunks * std::min(columns, kColumnBlock));
      w.scratch_bytes = partial * lead * chunks * padded(columns);
      w.shared_scratch = true;
      break;
    }
    case Schedule::kSequential:
      w.items[0] = columns > 0 ? outer / columns * ceil_div(columns, kSequentialBlock) : 0;
      w.cost[0] = std::max<int64_t>(1, rows * std::min(columns, kSequentialBlock));
      w.scratch_bytes = kept * rows * kLanes;
      break;
    case Schedule::kHorizontal:
      w.cost[0] = kHorizontalChunk;  // items: the length of the chunk table
      break;
  }
  return w;
}

}  // namespace neuron
