// SPDX-License-Identifier: Apache-2.0
//
// Elements that follow from positions, random fills (lower/generator_ops.h), and losses
// (lower/loss_ops.h).
#include <string_view>
#include <vector>

#include "neuron/eager/shipped_families.h"

namespace neuron {
namespace {

using Operand = ShippedCollector::Operand;

constexpr std::string_view kShapes[] = {"a", "", "ab", "abc", "abcd"};

// Common dtype, scalar operands, and `values` words.
AttributeWriter words(DType common, int64_t scalars, int values) {
  AttributeWriter a;
  a.structural(static_cast<int64_t>(common));
  a.structural(scalars);
  for (int word = __builtin_popcountll(static_cast<uint64_t>(scalars)) + values; word > 0; --word) {
    a.value(int64_t{0});
  }
  return a;
}

}  // namespace

void ship_generator(ShippedCollector& c, LoweredOp op) {
  for (DType t : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64,
                  DType::kInt64, DType::kInt32}) {
    c.add(op, "a", {}, {{t, "a"}}, words(t, 0, op_info(op_id(op)).values));
  }
}

void ship_matrix(ShippedCollector& c, LoweredOp op) {
  const OpInfo& info = op_info(op_id(op));
  for (DType t :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kBool, DType::kInt64}) {
    for (std::string_view shape : {"ab", "abc"}) {
      c.add(op, shape, std::vector<Operand>(info.operands, {t, shape}), {{t, shape}},
            words(t, 0, info.values));
    }
    if (info.operands == 1) c.add(op, "ab", {{t, "ba"}}, {{t, "ab"}}, words(t, 0, info.values));
  }
}

void ship_random(ShippedCollector& c, LoweredOp op) {
  const OpInfo& info = op_info(op_id(op));
  const int values = info.values + 2;  // seed and offset
  constexpr DType kF32 = DType::kFloat32;
  for (std::string_view shape : kShapes) {
    for (DType t : kModelDtypes) {
      switch (op) {
        case LoweredOp::kNativeDropout:
          c.add(op, shape, {{t, shape}}, {{t, shape}, {DType::kBool, shape}}, words(t, 0, values));
          break;
        case LoweredOp::kBernoulli:
          c.add(op, shape, {}, {{t, shape}}, words(kF32, 1, values));
          c.add(op, shape, {{t, shape}}, {{t, shape}}, words(t, 0, values));
          break;
        case LoweredOp::kRandom:
          c.add(op, shape, {}, {{t, shape}}, words(DType::kInt64, 0, values));
          break;
        case LoweredOp::kNormal:
          c.add(op, shape, {}, {{t, shape}}, words(t, 0b11, values));
          break;
        default:
          c.add(op, shape, {}, {{t, shape}}, words(t, 0, values));
      }
    }
    if (op == LoweredOp::kBernoulli) {
      c.add(op, shape, {}, {{DType::kBool, shape}}, words(kF32, 1, values));
    }
    if (op == LoweredOp::kRandom) {
      c.add(op, shape, {}, {{DType::kInt64, shape}}, words(DType::kInt64, 0, values));
      c.add(op, shape, {}, {{DType::kInt32, shape}}, words(DType::kInt64, 0, values));
    }
  }
}

void ship_loss(ShippedCollector& c, LoweredOp op) {
  const OpInfo& info = op_info(op_id(op));
  for (DType t : kModelDtypes) {
    // An absent operand is the last one.
    for (size_t present = 2; present <= info.operands; ++present) {
      for (int64_t reduction : {0, 1, 2}) {
        AttributeWriter a;
        a.structural(static_cast<int64_t>(t));
        a.structural((int64_t{1} << present) - 1);
        a.structural(reduction);
        for (int v = 0; v < info.values; ++v) a.value(1.0);
        const std::string_view out = reduction == 0 ? "a" : "";
        c.add(op, "a", std::vector<Operand>(present, {t, "a"}), {{t, out, out}}, a);
      }
    }
  }
}

}  // namespace neuron
