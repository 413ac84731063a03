// SPDX-License-Identifier: Apache-2.0
//
// IndexingLowering: the vocabulary that the families of indexing_table.h are lowered in. Positions
// and offsets are i64; offsets are in elements.
#pragma once

#include "neuron/lower/attributes.h"
#include "neuron/lower/lowering.h"

namespace neuron {

class IndexingLowering : public LoweringBase {
 public:
  using LoweringBase::input_number;
  using LoweringBase::load;
  using LoweringBase::LoweringBase;
  using LoweringBase::scalar;
  using LoweringBase::scatter;
  using LoweringBase::store;

  GraphBuilder& b() { return b_; }
  uint64_t word(size_t i) const { return attribute_word(record_.attributes, i); }
  // Value word `i` of a tensor's dtype, in the type that ATen computes in.
  ValueId value_word(size_t i, DType dtype);

  ValueId integer(int64_t value) { return b_.constant_int(DType::kInt64, value); }
  ValueId size(const TensorRef& ref, size_t dim) {
    return geometry(ScalarSource::Kind::kSize, ref, dim);
  }
  ValueId stride(const TensorRef& ref, size_t dim) {
    return geometry(ScalarSource::Kind::kStride, ref, dim);
  }
  ValueId times(ValueId a, ValueId b) { return b_.binary(IrOp::kMul, a, b); }
  ValueId sum(ValueId a, ValueId b);   // kNoValue is 0
  ValueId both(ValueId a, ValueId b);  // kNoValue is true

  // The index, in range or an error.
  ValueId checked(ValueId index, ValueId size, bool wraps);
  // Where the record's index tensors, inputs from 1 on, point to in `indexed`. An index out of
  // range is an error, or with `in_range` false there.
  ValueId offset_of(const TensorRef& indexed, ValueId* in_range = nullptr);
  // `low <= at < low + count`
  ValueId inside(ValueId at, ValueId low, ValueId count);
  // Along a logical dim that is one of the canonical form's `positions`.
  ValueId position(size_t dim);
};

}  // namespace neuron
