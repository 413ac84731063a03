// SPDX-License-Identifier: Apache-2.0
//
// Canonical: how one kernel of a recorded operation walks its operands, after dropping dims of size
// 1, ordering and merging dims.
//
// An operation has one or more *parts*, each a kernel of its own (the gradients of a layer norm:
// one over rows, one over columns). A part's dims are `parallel_rank` parallel ones, then
// `row_rank` ones that it reduces over; every operand has a stride along each. All of it follows
// from the record's own geometry alone, never from its neighbours: that is what makes a reduction's
// tree, and so its bits, independent of fusion.
//
// Computed for every record of every window, so it allocates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "neuron/ir/op_record.h"
#include "neuron/lower/op_table.h"

namespace neuron {

constexpr int kMaxOperands = 10;  // inputs and outputs of one part

// Which dim neighbouring elements lie along, which fixes the tree of reductions.
enum class Walk : uint8_t {
  kPointwise,  // no reduction
  kRow,        // along the rows
  kColumn,     // along the last parallel dim; rows are visited one after the other
};

struct CanonicalOperand {
  const TensorRef* ref = nullptr;
  std::array<int64_t, kMaxRank> strides{};  // in elements, 0 where the operand does not vary
  uint8_t index = 0;                        // among the record's inputs, or its outputs
  bool output = false;
  // Accessed at computed places, which may be anywhere in the reference: the strides are those of
  // the dims that it is walked along.
  bool indexed = false;
};

struct Canonical {
  Walk walk = Walk::kPointwise;
  uint8_t parallel_rank = 0;
  uint8_t row_rank = 0;
  uint8_t operand_count = 0;
  std::array<int64_t, kMaxRank> sizes{};
  std::array<CanonicalOperand, kMaxOperands> operands;  // inputs first
  // Logical dims whose positions are values of the operation: they are never merged. `origin` is
  // the logical dim of each canonical one that was not merged, kNoOrigin where there is none.
  uint8_t positions = 0;
  std::array<uint8_t, kMaxRank> origin{};
  static constexpr uint8_t kNoOrigin = 7;

  int rank() const { return parallel_rank + row_rank; }
  std::span<const CanonicalOperand> used() const { return {operands.data(), operand_count}; }
};

int part_count(const OpRecord& record);
void canonicalize(const OpRecord& record, int part, Canonical* result);

// Backward of norms: which gradients a record has, in order.
struct NormWanted {
  int input = -1, weight = -1, bias = -1;  // position among the record's outputs, -1: absent
};
NormWanted norm_wanted(const OpRecord& record);

}  // namespace neuron
