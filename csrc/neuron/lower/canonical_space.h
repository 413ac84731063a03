// SPDX-License-Identifier: Apache-2.0
//
// CanonicalSpace: a part before its dims are dropped, ordered and merged: logical dims in order,
// each a row dim or not, and the operands' strides along them. What the functions of canonical.h
// are written in.
//
//   CanonicalSpace s;
//   s.out = c;                              // the result; operands are added to it
//   s.rank = 2; s.sizes = {8, 16};          // or take_shape
//   s.bind_last(s.add(record.inputs, 0, false));
//   s.bind_last(s.add(record.outputs, 0, true));
//   collapse(s, 1);
#pragma once

#include <array>
#include <span>

#include "neuron/base/error.h"
#include "neuron/lower/canonical.h"

namespace neuron {

struct CanonicalSpace {
  int rank = 0;
  std::array<int64_t, kMaxRank> sizes{};
  std::array<bool, kMaxRank> row{};
  bool keep_row_order = false;  // positions along the rows are results
  bool keep_order = false;      // numbers of elements in row-major order are
  uint8_t positions = 0;        // as in Canonical
  Canonical* out = nullptr;

  CanonicalOperand& add(std::span<const TensorRef> refs, size_t index, bool output) {
    NEURON_CHECK(out->operand_count < kMaxOperands && index < refs.size());
    CanonicalOperand& o = out->operands[out->operand_count++];
    o = {&refs[index], {}, static_cast<uint8_t>(index), output};
    return o;
  }

  // Dim `d` of the space is dim `from` of the operand.
  void bind(CanonicalOperand& o, int d, int from) const {
    const auto f = static_cast<size_t>(from);
    o.strides[static_cast<size_t>(d)] = o.ref->sizes[f] == 1 ? 0 : o.ref->strides[f];
  }

  // The operand's dims are the space's last ones.
  void bind_last(CanonicalOperand& o) const {
    for (int k = 0; k < o.ref->rank; ++k) bind(o, rank - o.ref->rank + k, k);
  }
};

void take_shape(const TensorRef& shape, CanonicalSpace* s);

// From the space's dims to the canonical ones; `main_operand` gives the order.
void collapse(const CanonicalSpace& s, size_t main_operand);

// Reductions: a row dim always, and the walk from the strides of the operand that is read most.
void finish_rows(Canonical* c, size_t main_operand);

// The families of indexing_table.h; see canonical_indexing.cpp.
void canonicalize_index_read(const OpRecord& record, Canonical* c);
void canonicalize_index_write(const OpRecord& record, int part, Canonical* c);
void canonicalize_window_read(const OpRecord& record, Canonical* c);
void canonicalize_nll_loss(const OpRecord& record, Canonical* c);
void canonicalize_nll_loss_backward(const OpRecord& record, Canonical* c);

// What the parts of an indexed write do, in order.
struct IndexWriteParts {
  enum Kind { kBase, kReset, kWrite };
  std::array<Kind, 3> kinds;
  int count = 0;
};
IndexWriteParts index_write_parts(const OpRecord& record);

// Norms; see canonical_norms.cpp.
void canonicalize_norm(const OpRecord& record, int part, Canonical* c);

}  // namespace neuron
