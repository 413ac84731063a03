// SPDX-License-Identifier: Apache-2.0
//
// Reductions, scans and softmax; the other families have files of their own.
#include "neuron/eager/shipped_kernels.h"

#include <algorithm>
#include <string>
#include <utility>

#include "neuron/eager/shipped_families.h"
#include "neuron/lower/op_dtypes.h"

namespace neuron {
namespace {

using Operand = ShippedCollector::Operand;

struct Reduction {
  const char* shape;
  const char* layout;
  const char* reduced;
  bool common;  // false: only for sum, mean and the like
};

constexpr Reduction kReductions[] = {
    {"ab", "ab", "b", true},       // rows
    {"a", "a", "a", true},         // everything
    {"ab", "ab", "a", true},       // columns
    {"abc", "abc", "b", true},     // a middle dim
    {"a", "", "a", false},         // one value repeated, the gradient of an expand
    {"", "", "", true},            // a single element
    {"az", "az", "z", false},      // over a dim of size 1
    {"abc", "abc", "ac", false},   // all but the channels
    {"abc", "a_bc", "c", false},   // rows of a slice
    {"ab", "a_b", "a", false},     // columns of a slice
    {"ab", "a_b", "ab", false},    // a whole slice
    {"abc", "a_bc", "ab", false},  // leading dims of a slice
    {"abc", "bac", "a", false},    // a leading dim of a transposed tensor
    {"abc", "bac", "c", false},    // rows of a transposed tensor
    {"abcd", "abcd", "bd", false},
};

bool is_common_reduction(LoweredOp op) {
  switch (op) {
    case LoweredOp::kSum:
    case LoweredOp::kMean:
    case LoweredOp::kAmax:
    case LoweredOp::kMaxDim:
    case LoweredOp::kArgmax:
    case LoweredOp::kVar:
    case LoweredOp::kNorm2:
    case LoweredOp::kLogsumexp:
      return true;
    default:
      return false;
  }
}

struct ReductionTypes {
  DType input, common;
};

std::vector<ReductionTypes> reduction_types(LoweredOp op) {
  std::vector<ReductionTypes> types;
  const bool counts = op == LoweredOp::kSum || op == LoweredOp::kProd;  // integers become i64
  for (DType t : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64,
                  DType::kInt64, DType::kInt32, DType::kUInt8, DType::kBool}) {
    const DType common = counts && !is_floating(t) ? DType::kInt64 : t;
    if (takes_common_dtype(op, common)) types.push_back({t, common});
  }
  if (op == LoweredOp::kSum || op == LoweredOp::kMean || op == LoweredOp::kNorm2) {
    types.push_back({DType::kBFloat16, DType::kFloat32});
    types.push_back({DType::kFloat16, DType::kFloat32});
  }
  return types;
}

// The result of a reduction with the given output `o`.
DType reduction_output(LoweredOp op, size_t o, DType common) {
  switch (op) {
    case LoweredOp::kArgmax:
    case LoweredOp::kArgmin:
      return DType::kInt64;
    case LoweredOp::kMaxDim:
    case LoweredOp::kMinDim:
      return o == 0 ? common : DType::kInt64;
    case LoweredOp::kAny:
    case LoweredOp::kAll:
      return DType::kBool;
    default:
      return common;
  }
}

bool reduces_one_dim(LoweredOp op) {
  return op == LoweredOp::kMaxDim || op == LoweredOp::kMinDim || op == LoweredOp::kArgmax ||
         op == LoweredOp::kArgmin;
}

void add_reduction(ShippedCollector& c, LoweredOp op, const Reduction& r, ReductionTypes types) {
  const OpInfo& info = op_info(op_id(op));
  const std::string_view shape = r.shape, reduced = r.reduced;
  int64_t mask = 0;
  std::string kept;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (reduced.find(shape[d]) == std::string_view::npos) {
      kept += shape[d];
    } else {
      mask |= int64_t{1} << d;
    }
  }
  AttributeWriter a;
  a.structural(static_cast<int64_t>(types.common));
  a.structural(mask);
  a.structural(0);
  for (int v = 0; v < info.values; ++v) a.value(1.0);
  std::vector<Operand> outputs;
  for (size_t o = 0; o < info.outputs; ++o) {
    outputs.push_back({reduction_output(op, o, types.common), kept, kept});
  }
  c.add(op, shape, {{types.input, r.layout}}, outputs, a);
}

void add_op(ShippedCollector& c, LoweredOp op) {
  switch (op_info(op_id(op)).family) {
    case OpFamily::kPointwise:
      return ship_pointwise(c, op);
    case OpFamily::kReduction:
      return ship_reduction(c, op);
    case OpFamily::kSoftmax:
      return ship_softmax(c, op);
    case OpFamily::kScan:
      return ship_scan(c, op);
    case OpFamily::kLayerNorm:
      return ship_layer_norm(c, op);
    case OpFamily::kLayerNormBackward:
      return ship_layer_norm_backward(c, op);
    case OpFamily::kRmsNorm:
      return ship_rms_norm(c, op);
    case OpFamily::kRmsNormBackward:
      return ship_rms_norm_backward(c, op);
    case OpFamily::kBatchNorm:
    case OpFamily::kBatchNormInference:
      return ship_batch_norm(c, op);
    case OpFamily::kBatchNormBackward:
    case OpFamily::kBatchNormInferenceBackward:
      return ship_batch_norm_backward(c, op);
    case OpFamily::kGroupNorm:
      return ship_group_norm(c, op);
    case OpFamily::kGroupNormBackward:
      return ship_group_norm_backward(c, op);
    case OpFamily::kGenerator:
      return ship_generator(c, op);
    case OpFamily::kMatrix:
      return ship_matrix(c, op);
    case OpFamily::kRandom:
      return ship_random(c, op);
    case OpFamily::kLoss:
      return ship_loss(c, op);
    case OpFamily::kNllLoss:
      return ship_nll_loss(c, op);
    case OpFamily::kNllLossBackward:
      return ship_nll_loss_backward(c, op);
    case OpFamily::kIndexRead:
      return ship_index_read(c, op);
    case OpFamily::kIndexWrite:
      return ship_index_write(c, op);
    case OpFamily::kWindowRead:
      return ship_window_read(c, op);
    default:
      return;  // compiled when met; tests/core/codegen_eager/shipped_kernels_test.cpp names them
  }
}

}  // namespace

void ship_reduction(ShippedCollector& c, LoweredOp op) {
  for (ReductionTypes types : reduction_types(op)) {
    const bool model = std::ranges::count(kModelDtypes, types.input) > 0;
    for (const Reduction& r : kReductions) {
      if (!r.common && !(model && is_common_reduction(op))) continue;
      if (reduces_one_dim(op) && std::string_view(r.reduced).size() > 1) continue;
      add_reduction(c, op, r, types);
    }
  }
}

void ship_scan(ShippedCollector& c, LoweredOp op) {
  const size_t outputs = op_info(op_id(op)).outputs;  // two: values and positions
  const auto add = [&](std::string_view shape, int dim, DType in, DType out) {
    AttributeWriter a;
    a.structural(static_cast<int64_t>(out));
    a.structural(dim);
    std::vector<Operand> results{{out, shape}};
    if (outputs == 2) results.push_back({DType::kInt64, shape});
    c.add(op, shape, {{in, shape}}, results, a);
  };
  for (const auto& [shape, dim] : {std::pair{"a", 0}, {"ab", 1}, {"ab", 0}, {"abc", 1}}) {
    for (DType t : kModelDtypes) add(shape, dim, t, t);
    add(shape, dim, DType::kInt64, DType::kInt64);
    if (outputs == 1) {
      add(shape, dim, DType::kInt32, DType::kInt64);
      add(shape, dim, DType::kBool, DType::kInt64);
    }
  }
}

void ship_softmax(ShippedCollector& c, LoweredOp op) {
  struct Rows {
    const char* shape;
    const char* layout;
    int dim;
  };
  constexpr Rows kRows[] = {{"ab", "ab", 1},   {"a", "a", 0},       {"ab", "ab", 0},
                            {"abc", "abc", 1}, {"abc", "a_bc", 2},  {"az", "az", 1},
                            {"abc", "acb", 2}, {"abcd", "acbd", 3}, {"abcd", "acdb", 3}};
  const auto inputs = static_cast<size_t>(op_info(op_id(op)).operands);
  const auto add = [&](const Rows& rows, DType in, DType out) {
    AttributeWriter a;
    a.structural(static_cast<int64_t>(inputs == 1 ? out : in));
    a.structural(rows.dim);
    std::vector<Operand> operands(inputs, {in, rows.layout});
    c.add(op, rows.shape, operands, {{out, rows.shape}}, a);
  };
  for (DType t : kModelDtypes) {
    for (const Rows& rows : kRows) add(rows, t, t);
  }
  add(kRows[0], DType::kFloat64, DType::kFloat64);
  for (DType t : {DType::kBFloat16, DType::kFloat16}) {
    if (inputs == 1) {
      add(kRows[0], t, DType::kFloat32);
    } else {
      add(kRows[0], DType::kFloat32, t);
    }
  }
}

std::vector<LoopNest> shipped_kernels() {
  ShippedCollector c;
  for (uint32_t id = 0; id <= UINT16_MAX; ++id) {
    if (is_lowered(static_cast<OpId>(id))) add_op(c, static_cast<LoweredOp>(id));
  }
  return c.take();
}

std::vector<LoopNest> shipped_kernels(LoweredOp op) {
  ShippedCollector c;
  add_op(c, op);
  return c.take();
}

}  // namespace neuron
