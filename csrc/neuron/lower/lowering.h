// SPDX-License-Identifier: Apache-2.0
//
// Lowering: from one part of a recorded operation to a Graph.
//
// The graph's axes are the canonical dims. Its inputs are the canonical operands that are inputs,
// in order, its outputs those that are outputs. Run-time scalars name the attribute word that they
// come from. What a graph computes depends on the record's structure alone (op, structural words,
// dtypes, canonical form), never on sizes or values.
//
// Half precision is computed in f32 inside one ATen operation and rounded once, to the common
// dtype, then converted to the output's dtype.
#pragma once

#include <cstdint>
#include <vector>

#include "neuron/ir/graph.h"
#include "neuron/ir/op_record.h"
#include "neuron/lower/canonical.h"

namespace neuron {

struct ScalarSource {
  uint8_t word = 0;               // of the record's attributes
  bool floating = true;           // the word holds an f64, else an i64
  DType dtype = DType::kFloat32;  // of the graph's scalar: f32, f64 or i64
};

struct Lowered {
  Graph graph;
  std::vector<ScalarSource> scalars;
};

Lowered lower(const OpRecord& record, int part, const Canonical& canonical);

// Bits of a graph's scalar for the value that a record carries now.
uint64_t scalar_bits(const ScalarSource& source, const OpRecord& record);

// The type that ATen computes in for a common dtype.
constexpr DType opmath(DType common) {
  return common == DType::kFloat16 || common == DType::kBFloat16 ? DType::kFloat32 : common;
}

// What the families share: a builder over the canonical form's axes.
class LoweringBase {
 public:
  LoweringBase(const OpRecord& record, const Canonical& canonical);
  Lowered finish();

 protected:
  // Input `i` of the record as it lies in memory.
  ValueId load(size_t i);
  // A run-time scalar from attribute word `word`.
  ValueId scalar(size_t word, bool floating, DType dtype);
  // Output `o` of the record.
  void store(size_t o, ValueId value);
  // i64 number of elements along the row axes, as `dtype`.
  ValueId row_count(DType dtype);

  DType output_dtype(size_t o) const { return record_.outputs[o].dtype; }

  const OpRecord& record_;
  const Canonical& canonical_;
  GraphBuilder b_;
  std::vector<ScalarSource> scalars_;

 private:
  AxisMask axes_of(const CanonicalOperand& operand) const;
  std::vector<ValueId> outputs_;  // by canonical output, kNoValue until stored
};

// One per family.
Lowered lower_pointwise(const OpRecord& record, const Canonical& canonical);
Lowered lower_reduction(const OpRecord& record, const Canonical& canonical);
Lowered lower_softmax(const OpRecord& record, const Canonical& canonical);
Lowered lower_layer_norm(const OpRecord& record, const Canonical& canonical);
Lowered lower_layer_norm_backward(const OpRecord& record, int part, const Canonical& canonical);

}  // namespace neuron
