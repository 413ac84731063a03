// SPDX-License-Identifier: Apache-2.0
#include "neuron/lower/canonical.h"

#include <algorithm>

#include "neuron/base/error.h"
#include "neuron/lower/attributes.h"
#include "neuron/lower/canonical_space.h"

namespace neuron {
namespace {

// Orders dims [first, last) by descending stride of the operand; stable.
void order(Canonical* c, int first, int last, const CanonicalOperand& by) {
  bool ordered = true;
  for (int d = first + 1; d < last; ++d) {
    ordered &= by.strides[static_cast<size_t>(d - 1)] >= by.strides[static_cast<size_t>(d)];
  }
  if (ordered) return;
  std::array<int, kMaxRank> perm;
  for (int d = 0; d < kMaxRank; ++d) perm[static_cast<size_t>(d)] = d;
  const auto begin = perm.begin() + first, end = perm.begin() + last;
  // Insertion sort: at most six dims, mostly in order already.
  for (auto i = begin; i != end; ++i) {
    for (auto j = i; j != begin && by.strides[static_cast<size_t>(*(j - 1))] <
                                       by.strides[static_cast<size_t>(*j)];
         --j) {
      std::swap(*(j - 1), *j);
    }
  }
  const auto permute = [&](std::array<int64_t, kMaxRank>& values) {
    std::array<int64_t, kMaxRank> moved = values;
    for (size_t d = 0; d < kMaxRank; ++d) moved[d] = values[static_cast<size_t>(perm[d])];
    values = moved;
  };
  permute(c->sizes);
  const std::array<uint8_t, kMaxRank> origin = c->origin;
  for (size_t d = 0; d < kMaxRank; ++d) c->origin[d] = origin[static_cast<size_t>(perm[d])];
  for (size_t i = 0; i < c->operand_count; ++i) permute(c->operands[i].strides);
}

bool mergeable(const Canonical& c, size_t outer, size_t inner) {
  if (((c.positions >> c.origin[outer] | c.positions >> c.origin[inner]) & 1) != 0) return false;
  for (const CanonicalOperand& o : c.used()) {
    if (o.strides[outer] != o.strides[inner] * c.sizes[inner]) return false;
  }
  return true;
}

// Merges neighbours among dims [first, last); returns the new `last`. Dims behind move up.
int merge(Canonical* c, int first, int last, int rank) {
  int kept = first;
  const auto move = [&](int from, int to) {
    if (from == to) return;
    c->sizes[static_cast<size_t>(to)] = c->sizes[static_cast<size_t>(from)];
    c->origin[static_cast<size_t>(to)] = c->origin[static_cast<size_t>(from)];
    for (size_t i = 0; i < c->operand_count; ++i) {
      auto& s = c->operands[i].strides;
      s[static_cast<size_t>(to)] = s[static_cast<size_t>(from)];
    }
  };
  for (int d = first; d < last; ++d) {
    if (kept > first && mergeable(*c, static_cast<size_t>(kept - 1), static_cast<size_t>(d))) {
      const int64_t outer = c->sizes[static_cast<size_t>(kept - 1)];
      move(d, kept - 1);
      c->sizes[static_cast<size_t>(kept - 1)] *= outer;
    } else {
      move(d, kept++);
    }
  }
  for (int d = last; d < rank; ++d) move(d, kept + d - last);
  return kept;
}

}  // namespace

void collapse(const CanonicalSpace& s, size_t main_operand) {
  Canonical* c = s.out;
  c->positions = s.positions;
  // Parallel dims first, then row dims, each in logical order, without those of size 1.
  std::array<std::array<int64_t, kMaxRank>, kMaxOperands> strides;
  for (size_t i = 0; i < c->operand_count; ++i) strides[i] = c->operands[i].strides;
  int rank = 0;
  for (const bool row : {false, true}) {
    for (int d = 0; d < s.rank; ++d) {
      const auto from = static_cast<size_t>(d);
      if (s.row[from] != row || s.sizes[from] == 1) continue;
      const auto to = static_cast<size_t>(rank++);
      c->sizes[to] = s.sizes[from];
      c->origin[to] = static_cast<uint8_t>(d);
      for (size_t i = 0; i < c->operand_count; ++i) c->operands[i].strides[to] = strides[i][from];
    }
    if (!row) c->parallel_rank = static_cast<uint8_t>(rank);
  }
  const int parallel = c->parallel_rank;
  if (!s.keep_order) order(c, 0, parallel, c->operands[main_operand]);
  if (!s.keep_row_order) order(c, parallel, rank, c->operands[main_operand]);
  const int merged = merge(c, 0, parallel, rank);
  rank -= parallel - merged;
  rank = merge(c, merged, rank, rank);
  c->parallel_rank = static_cast<uint8_t>(merged);
  c->row_rank = static_cast<uint8_t>(rank - merged);
}

void finish_rows(Canonical* c, size_t main_operand) {
  if (c->row_rank == 0) {
    if (c->rank() == kMaxRank) {
      throw Error(ErrorCode::kUnsupported, "a reduction over dims of size 1 in six dims");
    }
    c->sizes[static_cast<size_t>(c->rank())] = 1;
    for (size_t i = 0; i < c->operand_count; ++i) {
      c->operands[i].strides[c->parallel_rank] = 0;
    }
    c->origin[c->parallel_rank] = Canonical::kNoOrigin;
    c->row_rank = 1;
    c->walk = Walk::kRow;
    return;
  }
  c->walk = Walk::kRow;
  if (c->parallel_rank == 0) return;
  const auto& strides = c->operands[main_operand].strides;
  const int64_t row = strides[static_cast<size_t>(c->rank() - 1)];
  const int64_t column = strides[static_cast<size_t>(c->parallel_rank - 1)];
  if (column != 0 && column < row) c->walk = Walk::kColumn;
}

void take_shape(const TensorRef& shape, CanonicalSpace* s) {
  s->rank = shape.rank;
  std::copy_n(shape.sizes, shape.rank, s->sizes.begin());
}

namespace {

void pointwise(const OpRecord& record, bool keep_order, uint8_t positions, Canonical* c) {
  CanonicalSpace s;
  s.keep_order = keep_order;
  s.positions = positions;
  s.out = c;
  const TensorRef& shape = record.outputs[0];
  s.rank = shape.rank;
  std::copy_n(shape.sizes, shape.rank, s.sizes.begin());
  for (size_t i = 0; i < record.inputs.size(); ++i) s.bind_last(s.add(record.inputs, i, false));
  const size_t first_output = c->operand_count;
  for (size_t i = 0; i < record.outputs.size(); ++i) s.bind_last(s.add(record.outputs, i, true));
  collapse(s, first_output);
  c->walk = Walk::kPointwise;
}

uint8_t matrix_dims(const TensorRef& shape) {
  return static_cast<uint8_t>(0b11 << (shape.rank - 2));
}

void reduction(const OpRecord& record, Canonical* c) {
  CanonicalSpace s;
  s.out = c;
  take_shape(record.inputs[0], &s);
  const uint64_t reduced = attribute_word(record.attributes, 1);
  const bool keepdim = attribute_word(record.attributes, 2) != 0;
  for (int d = 0; d < s.rank; ++d) s.row[static_cast<size_t>(d)] = (reduced >> d & 1) != 0;
  const auto op = static_cast<LoweredOp>(record.op);
  s.keep_row_order = op == LoweredOp::kArgmax || op == LoweredOp::kArgmin;
  s.bind_last(s.add(record.inputs, 0, false));
  for (size_t i = 0; i < record.outputs.size(); ++i) {
    CanonicalOperand& o = s.add(record.outputs, i, true);
    for (int d = 0, from = 0; d < s.rank; ++d) {
      const bool row = s.row[static_cast<size_t>(d)];
      if (!row) s.bind(o, d, from);
      if (!row || keepdim) ++from;
    }
  }
  collapse(s, 0);
  finish_rows(c, 0);
}

// Also scans: one row dim.
void softmax(const OpRecord& record, Canonical* c) {
  CanonicalSpace s;
  s.out = c;
  take_shape(record.inputs[0], &s);
  if (s.rank == 0) {
    s.rank = 1;
    s.sizes[0] = 1;
  } else {
    s.row[static_cast<size_t>(attribute_word(record.attributes, 1))] = true;
  }
  for (size_t i = 0; i < record.inputs.size(); ++i) s.bind_last(s.add(record.inputs, i, false));
  for (size_t i = 0; i < record.outputs.size(); ++i) s.bind_last(s.add(record.outputs, i, true));
  collapse(s, 0);
  finish_rows(c, 0);
}

void loss(const OpRecord& record, Canonical* c) {
  if (attribute_word(record.attributes, 2) == 0) return pointwise(record, false, 0, c);
  CanonicalSpace s;
  s.out = c;
  for (const TensorRef& ref : record.inputs) s.rank = std::max(s.rank, int{ref.rank});
  s.sizes.fill(1);
  for (const TensorRef& ref : record.inputs) {
    for (int d = 0; d < ref.rank; ++d) {
      int64_t& size = s.sizes[static_cast<size_t>(s.rank - ref.rank + d)];
      size = std::max(size, ref.sizes[d]);
    }
  }
  s.row.fill(true);
  for (size_t i = 0; i < record.inputs.size(); ++i) s.bind_last(s.add(record.inputs, i, false));
  s.add(record.outputs, 0, true);
  collapse(s, 0);
  finish_rows(c, 0);
}

}  // namespace

void canonicalize(const OpRecord& record, int part, Canonical* result) {
  result->parallel_rank = result->row_rank = result->operand_count = result->positions = 0;
  switch (op_info(record.op).family) {
    case OpFamily::kPointwise:
      return pointwise(record, false, 0, result);
    case OpFamily::kGenerator:
    case OpFamily::kRandom:
      return pointwise(record, true, 0, result);
    case OpFamily::kMatrix:
      return pointwise(record, false, matrix_dims(record.outputs[0]), result);
    case OpFamily::kReduction:
      return reduction(record, result);
    case OpFamily::kLoss:
      return loss(record, result);
    case OpFamily::kSoftmax:
    case OpFamily::kScan:
      return softmax(record, result);
    case OpFamily::kIndexRead:
      return canonicalize_index_read(record, result);
    case OpFamily::kIndexWrite:
      return canonicalize_index_write(record, part, result);
    case OpFamily::kWindowRead:
      return canonicalize_window_read(record, result);
    case OpFamily::kNllLoss:
      return canonicalize_nll_loss(record, result);
    case OpFamily::kNllLossBackward:
      return canonicalize_nll_loss_backward(record, result);
    default:
      return canonicalize_norm(record, part, result);
  }
}

}  // namespace neuron
