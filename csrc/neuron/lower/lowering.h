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
  enum class Kind : uint8_t { kWord, kSize, kStride };

  uint8_t word = 0;               // of the record's attributes; the dim of a size or stride
  bool floating = true;           // the word holds an f64, else an i64
  DType dtype = DType::kFloat32;  // of the graph's scalar: f32, f64 or i64
  Kind kind = Kind::kWord;
  bool output = false;  // sizes and strides: of an output,
  uint8_t operand = 0;  // of this one; i64, strides in elements and 0 along dims of size 1

  bool operator==(const ScalarSource&) const = default;
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
  // A size or a stride of an input or output of the record, i64.
  ValueId geometry(ScalarSource::Kind kind, const TensorRef& ref, size_t dim);
  // Number of a canonical operand among the graph's inputs.
  int input_number(size_t i);
  // Output `o` of the record.
  void store(size_t o, ValueId value);
  // The same, at computed places (GraphOutput).
  void scatter(size_t o, Combine combine, ValueId value, ValueId offset, ValueId mask);
  // i64 number of elements along the row axes, as `dtype`.
  ValueId row_count(DType dtype);

  DType output_dtype(size_t o) const { return record_.outputs[o].dtype; }

  const OpRecord& record_;
  const Canonical& canonical_;
  GraphBuilder b_;
  std::vector<ScalarSource> scalars_;

 private:
  AxisMask axes_of(const CanonicalOperand& operand) const;
  ValueId add_scalar(const ScalarSource& source);
  std::vector<GraphOutput> outputs_;  // by canonical output, without a value until stored
};

// One per family.
Lowered lower_pointwise(const OpRecord& record, const Canonical& canonical);
Lowered lower_reduction(const OpRecord& record, const Canonical& canonical);
Lowered lower_softmax(const OpRecord& record, const Canonical& canonical);
Lowered lower_layer_norm(const OpRecord& record, const Canonical& canonical);
Lowered lower_layer_norm_backward(const OpRecord& record, int part, const Canonical& canonical);
Lowered lower_index_read(const OpRecord& record, const Canonical& canonical);
Lowered lower_index_write(const OpRecord& record, int part, const Canonical& canonical);
Lowered lower_window_read(const OpRecord& record, const Canonical& canonical);
Lowered lower_nll_loss(const OpRecord& record, const Canonical& canonical);
Lowered lower_nll_loss_backward(const OpRecord& record, const Canonical& canonical);
Lowered lower_batch_norm(const OpRecord& record, int part, const Canonical& canonical);
Lowered lower_group_norm(const OpRecord& record, const Canonical& canonical);
Lowered lower_group_norm_backward(const OpRecord& record, int part, const Canonical& canonical);
Lowered lower_rms_norm(const OpRecord& record, const Canonical& canonical);
Lowered lower_rms_norm_backward(const OpRecord& record, int part, const Canonical& canonical);
Lowered lower_weight_norm(const OpRecord& record, const Canonical& canonical);
Lowered lower_scan(const OpRecord& record, const Canonical& canonical);
Lowered lower_loss(const OpRecord& record, const Canonical& canonical);

}  // namespace neuron
