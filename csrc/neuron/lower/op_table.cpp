// SPDX-License-Identifier: Apache-2.0
#include "neuron/lower/op_table.h"

#include "neuron/base/error.h"

namespace neuron {
namespace {

constexpr OpInfo kOps[] = {
#define NEURON_LOWERED_OP_INFO(op, name, family, operands, outputs, values) \
  {#op, name, OpFamily::k##family, operands, outputs, values},
    NEURON_LOWERED_OPS(NEURON_LOWERED_OP_INFO)};

constexpr OpInfo kIndexingOps[] = {NEURON_INDEXING_OPS(NEURON_LOWERED_OP_INFO)
#undef NEURON_LOWERED_OP_INFO
};

constexpr size_t kFirst = static_cast<size_t>(OpId::kFirstLowered);

}  // namespace

const OpInfo& op_info(OpId id) {
  NEURON_CHECK(is_lowered(id));
  if (static_cast<uint16_t>(id) >= kFirstIndexingOp) {
    return kIndexingOps[static_cast<size_t>(id) - kFirstIndexingOp];
  }
  return kOps[static_cast<size_t>(id) - kFirst];
}

size_t structural_words(OpFamily family) {
  switch (family) {
    case OpFamily::kPointwise:
    case OpFamily::kSoftmax:
    case OpFamily::kGenerator:
    case OpFamily::kMatrix:
    case OpFamily::kRandom:
    case OpFamily::kScan:
      return 2;
    case OpFamily::kReduction:
    case OpFamily::kLayerNorm:
    case OpFamily::kLayerNormBackward:
    case OpFamily::kBatchNorm:
    case OpFamily::kBatchNormInference:
    case OpFamily::kBatchNormBackward:
    case OpFamily::kBatchNormInferenceBackward:
    case OpFamily::kGroupNorm:
    case OpFamily::kGroupNormBackward:
    case OpFamily::kRmsNorm:
    case OpFamily::kRmsNormBackward:
    case OpFamily::kWeightNorm:
    case OpFamily::kLoss:
      return 3;
    case OpFamily::kIndexRead:
    case OpFamily::kIndexWrite:
    case OpFamily::kWindowRead:
    case OpFamily::kNllLoss:
    case OpFamily::kNllLossBackward:
      return kIndexingWords;
  }
  throw_internal(__FILE__, __LINE__, "unknown family");
}

OpId find_op(std::string_view id) {
  for (size_t i = 0; i < std::size(kOps); ++i) {
    if (kOps[i].id == id) return static_cast<OpId>(kFirst + i);
  }
  for (size_t i = 0; i < std::size(kIndexingOps); ++i) {
    if (kIndexingOps[i].id == id) return static_cast<OpId>(kFirstIndexingOp + i);
  }
  return OpId::kHostCall;
}

}  // namespace neuron
