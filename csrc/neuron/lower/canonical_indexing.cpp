// SPDX-License-Identifier: Apache-2.0
//
// Canonical forms of indexing and movement (indexing_table.h).
#include <algorithm>

#include "neuron/base/error.h"
#include "neuron/lower/attributes.h"
#include "neuron/lower/canonical_space.h"

namespace neuron {
namespace {

LoweredOp lowered_op(const OpRecord& record) { return static_cast<LoweredOp>(record.op); }

void add_dim(CanonicalSpace* s, int64_t size, bool row) {
  if (s->rank == kMaxRank) {
    throw Error(ErrorCode::kUnsupported, "an index space of more than six dims");
  }
  s->sizes[static_cast<size_t>(s->rank)] = size;
  s->row[static_cast<size_t>(s->rank++)] = row;
}

// The walk of an indexed read or write: dims of the index space, and dims that the indexed tensor
// is walked along.
struct IndexSpace : CanonicalSpace {
  bool same_dims;  // Gather, Scatter...: the index has all dims
  int first, index_rank;
  uint64_t mask;
  std::array<int, kMaxRank> bound{};  // per dim of the indexed tensor: of the space, -1: indexed

  // `indexed` is the tensor, `indices` its first index tensor among the record's inputs.
  IndexSpace(const OpRecord& record, const TensorRef& indexed, size_t indices, bool rows,
             Canonical* c) {
    out = c;
    keep_row_order = true;
    mask = attribute_word(record.attributes, 2);
    same_dims = indexes_all_dims(lowered_op(record));
    if (same_dims) {
      take_shape(record.inputs[indices], this);
      first = 0;
      index_rank = rank;
      for (int d = 0; d < indexed.rank; ++d) {
        const bool is_indexed = (mask >> d & 1) != 0;
        bound[static_cast<size_t>(d)] = is_indexed ? -1 : d;
        row[static_cast<size_t>(d)] = rows && is_indexed;
      }
      return;
    }
    first = static_cast<int>(attribute_word(record.attributes, 0));
    index_rank = static_cast<int>(attribute_word(record.attributes, 1));
    const auto add_indices = [&] {
      for (int d = 0; d < index_rank; ++d) add_dim(this, index_size(record, indices, d), rows);
    };
    if (first == 0) add_indices();
    for (int d = 0; d < indexed.rank; ++d) {
      if ((mask >> d & 1) != 0) {
        bound[static_cast<size_t>(d)] = -1;
        continue;
      }
      bound[static_cast<size_t>(d)] = rank;
      add_dim(this, indexed.sizes[d], false);
      if (rank == first) add_indices();
    }
  }

  size_t index_count() const { return static_cast<size_t>(__builtin_popcountll(mask)); }

  void bind_indexed(CanonicalOperand& o) const {
    o.indexed = true;
    for (int d = 0; d < o.ref->rank; ++d) {
      const int at = bound[static_cast<size_t>(d)];
      if (at >= 0) bind(o, at, d);
    }
  }

  void bind_index(CanonicalOperand& o) const {
    const int offset = first + index_rank - o.ref->rank;
    for (int d = 0; d < o.ref->rank; ++d) bind(o, offset + d, d);
  }

 private:
  static bool indexes_all_dims(LoweredOp op) {
    switch (op) {
      case LoweredOp::kGather:
      case LoweredOp::kScatter:
      case LoweredOp::kScatterAdd:
      case LoweredOp::kScatterMul:
      case LoweredOp::kScatterMax:
      case LoweredOp::kScatterMin:
      case LoweredOp::kScatterAddOnly:
      case LoweredOp::kScatterMulOnly:
      case LoweredOp::kScatterMaxOnly:
      case LoweredOp::kScatterMinOnly:
        return true;
      default:
        return false;
    }
  }

  // Size of dim `d` of the index space: index tensors broadcast.
  int64_t index_size(const OpRecord& record, size_t indices, int d) const {
    int64_t size = 1;
    for (size_t k = indices; k < indices + index_count(); ++k) {
      const TensorRef& ref = record.inputs[k];
      const int own = d - (index_rank - ref.rank);
      if (own >= 0 && ref.sizes[own] != 1) size = ref.sizes[own];
    }
    return size;
  }
};

// Whether the rows of a write follow each other or its columns lie side by side: the latter where
// the columns are neighbours in the result, or nearer to each other in what is read.
Walk write_walk(const Canonical& c, const CanonicalOperand& read, const CanonicalOperand& written) {
  if (c.parallel_rank == 0) return Walk::kRow;
  const auto column = static_cast<size_t>(c.parallel_rank - 1);
  if (written.strides[column] == 1) return Walk::kColumn;
  const int64_t beside = read.strides[column];
  const int64_t after = read.strides[static_cast<size_t>(c.rank() - 1)];
  return beside != 0 && beside < after ? Walk::kColumn : Walk::kRow;
}

bool same_memory(const TensorRef& a, const TensorRef& b) {
  return a.block == b.block && a.byte_offset == b.byte_offset && a.dtype == b.dtype &&
         a.rank == b.rank && std::equal(a.strides, a.strides + a.rank, b.strides);
}

void whole_result(const OpRecord& record, Canonical* c, CanonicalSpace* s) {
  s->out = c;
  take_shape(record.outputs[0], s);
}

void finish_pointwise(const CanonicalSpace& s) {
  collapse(s, s.out->operand_count - size_t{1});
  s.out->walk = Walk::kPointwise;
}

// Dims of `ref` are those of the space but for `missing`.
void bind_without(CanonicalOperand& o, const CanonicalSpace& s, int missing) {
  for (int d = 0, from = 0; d < s.rank; ++d) {
    if (d != missing) s.bind(o, d, from++);
  }
}

}  // namespace

IndexWriteParts index_write_parts(const OpRecord& record) {
  IndexWriteParts parts;
  const auto add = [&](IndexWriteParts::Kind kind) {
    parts.kinds[static_cast<size_t>(parts.count++)] = kind;
  };
  const LoweredOp op = lowered_op(record);
  if (op == LoweredOp::kEmbeddingBackward || !same_memory(record.inputs[0], record.outputs[0])) {
    add(IndexWriteParts::kBase);
  }
  if (op >= LoweredOp::kScatterAddOnly && op <= LoweredOp::kScatterMinOnly) {
    add(IndexWriteParts::kReset);
  }
  add(IndexWriteParts::kWrite);
  return parts;
}

void canonicalize_index_read(const OpRecord& record, Canonical* c) {
  IndexSpace s(record, record.inputs[0], 1, false, c);
  s.bind_indexed(s.add(record.inputs, 0, false));
  for (size_t k = 0; k < s.index_count(); ++k) s.bind_index(s.add(record.inputs, 1 + k, false));
  s.bind_last(s.add(record.outputs, 0, true));
  finish_pointwise(s);
}

void canonicalize_index_write(const OpRecord& record, int part, Canonical* c) {
  const bool embedding = lowered_op(record) == LoweredOp::kEmbeddingBackward;
  const IndexWriteParts::Kind kind = index_write_parts(record).kinds[static_cast<size_t>(part)];
  if (kind == IndexWriteParts::kBase) {
    CanonicalSpace s;
    whole_result(record, c, &s);
    if (!embedding) s.bind_last(s.add(record.inputs, 0, false));
    s.bind_last(s.add(record.outputs, 0, true));
    return finish_pointwise(s);
  }
  const bool has_value = attribute_word(record.attributes, 3) == 0;
  IndexSpace s(record, record.outputs[0], 1, true, c);
  if (has_value && kind == IndexWriteParts::kWrite) {
    s.bind_last(s.add(record.inputs, embedding ? 0 : 1 + s.index_count(), false));
  }
  for (size_t k = 0; k < s.index_count(); ++k) s.bind_index(s.add(record.inputs, 1 + k, false));
  const size_t written = c->operand_count;
  s.bind_indexed(s.add(record.outputs, 0, true));
  collapse(s, written);
  finish_rows(c, written);
  c->walk = write_walk(*c, c->operands[0], c->operands[written]);
}

void canonicalize_window_read(const OpRecord& record, Canonical* c) {
  CanonicalSpace s;
  whole_result(record, c, &s);
  const LoweredOp op = lowered_op(record);
  const uint64_t word = attribute_word(record.attributes, op == LoweredOp::kCat ? 0 : 1);
  s.positions = static_cast<uint8_t>(op == LoweredOp::kCat ? uint64_t{1} << word : word);
  const bool in_place = op == LoweredOp::kCat || op == LoweredOp::kPad;
  for (size_t i = 0; i < record.inputs.size(); ++i) {
    CanonicalOperand& o = s.add(record.inputs, i, false);
    o.indexed = true;
    // A mirrored dim is addressed by its position alone.
    for (int d = 0; d < s.rank; ++d) {
      if (in_place || (s.positions >> d & 1) == 0) s.bind(o, d, d);
    }
  }
  s.bind_last(s.add(record.outputs, 0, true));
  finish_pointwise(s);
}

void canonicalize_nll_loss(const OpRecord& record, Canonical* c) {
  CanonicalSpace s;
  s.out = c;
  take_shape(record.inputs[1], &s);
  const bool reduces = attribute_word(record.attributes, 2) != 0;
  s.row.fill(reduces);
  CanonicalOperand& self = s.add(record.inputs, 0, false);
  self.indexed = true;
  const auto classes = static_cast<int>(attribute_word(record.attributes, 0));
  for (int d = 0; d < s.rank; ++d) s.bind(self, d, d < classes ? d : d + 1);
  s.bind_last(s.add(record.inputs, 1, false));
  if (record.inputs.size() > 2) s.add(record.inputs, 2, false).indexed = true;
  for (size_t o = 0; o < record.outputs.size(); ++o) {
    CanonicalOperand& out = s.add(record.outputs, o, true);
    if (!reduces) s.bind_last(out);
  }
  collapse(s, 1);
  c->walk = Walk::kPointwise;
  if (reduces) finish_rows(c, 1);
}

void canonicalize_nll_loss_backward(const OpRecord& record, Canonical* c) {
  CanonicalSpace s;
  whole_result(record, c, &s);
  const auto classes = static_cast<int>(attribute_word(record.attributes, 0));
  s.positions = static_cast<uint8_t>(1u << classes);
  CanonicalOperand& grad = s.add(record.inputs, 0, false);
  if (attribute_word(record.attributes, 2) == 0) bind_without(grad, s, classes);
  bind_without(s.add(record.inputs, 1, false), s, classes);
  if (attribute_word(record.attributes, 1) != 0) s.bind(s.add(record.inputs, 2, false), classes, 0);
  if (attribute_word(record.attributes, 2) == 1) {
    s.add(record.inputs, record.inputs.size() - 1, false);
  }
  s.bind_last(s.add(record.outputs, 0, true));
  finish_pointwise(s);
}

}  // namespace neuron
