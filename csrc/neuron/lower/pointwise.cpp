// SPDX-License-Identifier: Apache-2.0
#include "neuron/lower/pointwise.h"

#include <bit>
#include <limits>

#include "neuron/base/error.h"
#include "neuron/lower/attributes.h"

namespace neuron {
namespace {

constexpr size_t kFamilyWords = 2;

// Words before the op's own values: seed and offset.
size_t random_words(const OpInfo& info) { return info.family == OpFamily::kRandom ? 2 : 0; }

}  // namespace

PointwiseLowering::PointwiseLowering(const OpRecord& record, const Canonical& canonical)
    : LoweringBase(record, canonical),
      common_(static_cast<DType>(attribute_word(record.attributes, 0))),
      compute_(opmath(common_)),
      scalar_mask_(attribute_word(record.attributes, 1)) {
  const OpInfo& info = op_info(record.op);
  const auto scalars = static_cast<size_t>(std::popcount(scalar_mask_));
  NEURON_CHECK(scalars + record.inputs.size() == info.operands);
  NEURON_CHECK(attribute_count(record.attributes) ==
               kFamilyWords + scalars + random_words(info) + info.values);
}

ValueId PointwiseLowering::raw(size_t i) {
  const auto before = static_cast<size_t>(std::popcount(scalar_mask_ & ((uint64_t{1} << i) - 1)));
  if (is_scalar(i)) return scalar(kFamilyWords + before, floating(), compute_);
  return load(i - before);
}

ValueId PointwiseLowering::operand(size_t i, DType dtype) {
  // A host scalar keeps the precision of the computing type, as in ATen.
  if (is_scalar(i)) return b_.convert(dtype, raw(i));
  return b_.convert(dtype, b_.convert(common_, raw(i)));
}

size_t PointwiseLowering::own_word(size_t i) const {
  return kFamilyWords + static_cast<size_t>(std::popcount(scalar_mask_)) +
         random_words(op_info(record_.op)) + i;
}

ValueId PointwiseLowering::own(size_t i) { return scalar(own_word(i), floating(), compute_); }
ValueId PointwiseLowering::own_f64(size_t i) { return scalar(own_word(i), true, DType::kFloat64); }
ValueId PointwiseLowering::own_i64(size_t i) { return scalar(own_word(i), false, DType::kInt64); }

ValueId PointwiseLowering::position() {
  if (canonical_.rank() == 0) return b_.constant_int(DType::kInt64, 0);
  ValueId at = b_.index(0);
  for (int d = 1; d < canonical_.rank(); ++d) {
    at = add(mul(at, b_.extent(d)), b_.index(d));
  }
  return at;
}

ValueId PointwiseLowering::count() {
  ValueId n = b_.constant_int(DType::kInt64, 1);
  for (int d = 0; d < canonical_.rank(); ++d) n = mul(n, b_.extent(d));
  return n;
}

ValueId PointwiseLowering::position_along(int from_last) {
  const int dim = record_.outputs[0].rank - 1 - from_last;
  for (int d = 0; d < canonical_.rank(); ++d) {
    if (canonical_.origin[static_cast<size_t>(d)] == dim) return b_.index(d);
  }
  return b_.constant_int(DType::kInt64, 0);  // of size 1
}

ValueId PointwiseLowering::random_word(int word) {
  const size_t seed = own_word(0) - 2;
  return b_.philox(scalar(seed, false, DType::kInt64), position(),
                   scalar(seed + 1, false, DType::kInt64), word);
}

void PointwiseLowering::result(size_t output, ValueId value) {
  if (b_.dtype(value) != DType::kBool) value = b_.convert(common_, value);
  store(output, value);
}

Lowered lower_pointwise(const OpRecord& record, const Canonical& canonical) {
  PointwiseLowering p(record, canonical);
  const bool known = lower_arithmetic(p) || lower_comparison(p) || lower_functions(p) ||
                     lower_activations(p) || lower_generators(p) || lower_random(p) ||
                     lower_loss_gradients(p) || lower_more_pointwise(p) ||
                     lower_activation_gradients(p);
  NEURON_CHECK(known);
  return p.finish();
}

bool lower_arithmetic(PointwiseLowering& p) {
  switch (p.op()) {
    case LoweredOp::kCopy:
    case LoweredOp::kFill:
      p.result(p.rounded(0));
      break;
    case LoweredOp::kWhere:
      p.result(p.select(p.truth(0), p.rounded(1), p.rounded(2)));
      break;
    case LoweredOp::kMaskedFill:
      p.result(p.select(p.truth(1), p.rounded(2), p.rounded(0)));
      break;
    case LoweredOp::kAdd:
      p.result(p.add(p.x(0), p.x(1)));
      break;
    case LoweredOp::kAddScaled:
      p.result(p.add(p.x(0), p.mul(p.own(0), p.x(1))));
      break;
    case LoweredOp::kSub:
      p.result(p.sub(p.x(0), p.x(1)));
      break;
    case LoweredOp::kSubScaled:
      p.result(p.sub(p.x(0), p.mul(p.own(0), p.x(1))));
      break;
    case LoweredOp::kRsubScaled:
      p.result(p.sub(p.x(1), p.mul(p.own(0), p.x(0))));
      break;
    case LoweredOp::kMul:
      p.result(p.mul(p.x(0), p.x(1)));
      break;
    case LoweredOp::kDiv:
      p.result(p.div(p.x(0), p.x(1)));
      break;
    case LoweredOp::kDivTrunc:
      p.result(p.floating() ? p.un(IrOp::kTrunc, p.div(p.x(0), p.x(1)))
                            : p.bin(IrOp::kTruncDiv, p.x(0), p.x(1)));
      break;
    case LoweredOp::kDivFloor:
      p.result(p.bin(IrOp::kFloorDiv, p.x(0), p.x(1)));
      break;
    case LoweredOp::kFmod:
      p.result(p.bin(IrOp::kFmod, p.x(0), p.x(1)));
      break;
    case LoweredOp::kRemainder:
      p.result(p.bin(IrOp::kRemainder, p.x(0), p.x(1)));
      break;
    case LoweredOp::kPow:
      p.result(p.bin(IrOp::kPow, p.x(0), p.x(1)));
      break;
    case LoweredOp::kSquare:
      p.result(p.mul(p.x(0), p.x(0)));
      break;
    case LoweredOp::kCube:
      p.result(p.mul(p.mul(p.x(0), p.x(0)), p.x(0)));
      break;
    case LoweredOp::kReciprocalSquare:
      p.result(p.div(p.c(1), p.mul(p.x(0), p.x(0))));
      break;
    case LoweredOp::kMaximum:
      p.result(p.bin(IrOp::kMax, p.rounded(0), p.rounded(1)));
      break;
    case LoweredOp::kMinimum:
      p.result(p.bin(IrOp::kMin, p.rounded(0), p.rounded(1)));
      break;
    case LoweredOp::kFmax:
      p.result(p.bin(p.floating() ? IrOp::kFmax : IrOp::kMax, p.rounded(0), p.rounded(1)));
      break;
    case LoweredOp::kFmin:
      p.result(p.bin(p.floating() ? IrOp::kFmin : IrOp::kMin, p.rounded(0), p.rounded(1)));
      break;
    case LoweredOp::kClamp:
      p.result(p.bin(IrOp::kMin, p.bin(IrOp::kMax, p.rounded(0), p.rounded(1)), p.rounded(2)));
      break;
    case LoweredOp::kAtan2:
      p.result(p.bin(IrOp::kAtan2, p.x(0), p.x(1)));
      break;
    case LoweredOp::kCopysign:
      p.result(p.bin(IrOp::kCopysign, p.x(0), p.x(1)));
      break;
    case LoweredOp::kHypot:
      p.result(p.bin(IrOp::kHypot, p.x(0), p.x(1)));
      break;
    case LoweredOp::kNextafter:
      p.result(p.bin(IrOp::kNextAfter, p.rounded(0), p.rounded(1)));
      break;
    case LoweredOp::kLogaddexp:
    case LoweredOp::kLogaddexp2: {
      const bool binary = p.op() == LoweredOp::kLogaddexp2;
      const ValueId a = p.x(0), b = p.x(1);
      const ValueId power = p.un(IrOp::kNeg, p.un(IrOp::kAbs, p.sub(a, b)));
      const ValueId inv_log2 = p.c(1.4426950408889634074);
      const ValueId tail = binary ? p.mul(p.un(IrOp::kLog1p, p.un(IrOp::kExp2, power)), inv_log2)
                                  : p.un(IrOp::kLog1p, p.exp(power));
      const ValueId infinity = p.c(std::numeric_limits<double>::infinity());
      const ValueId same_infinity = p.bin(IrOp::kAnd, p.bin(IrOp::kEq, a, b),
                                          p.bin(IrOp::kEq, p.un(IrOp::kAbs, a), infinity));
      p.result(p.select(same_infinity, a, p.add(p.bin(IrOp::kMax, a, b), tail)));
      break;
    }
    case LoweredOp::kXlogy: {
      const ValueId a = p.x(0), b = p.x(1);
      const ValueId product =
          p.select(p.bin(IrOp::kEq, a, p.c(0)), p.c(0), p.mul(a, p.un(IrOp::kLog, b)));
      p.result(p.select(p.bin(IrOp::kNe, b, b), b, product));
      break;
    }
    case LoweredOp::kAddcmul:
      p.result(p.add(p.x(0), p.mul(p.mul(p.own(0), p.x(1)), p.x(2))));
      break;
    case LoweredOp::kAddcdiv:
      p.result(p.add(p.x(0), p.div(p.mul(p.own(0), p.x(1)), p.x(2))));
      break;
    case LoweredOp::kLerp: {
      const ValueId start = p.x(0), end = p.x(1), weight = p.x(2);
      const ValueId span = p.sub(end, start);
      const ValueId near_start = p.add(start, p.mul(weight, span));
      const ValueId near_end = p.sub(end, p.mul(span, p.sub(p.c(1), weight)));
      const ValueId small = p.bin(IrOp::kLt, p.un(IrOp::kAbs, weight), p.c(0.5));
      p.result(p.select(small, near_start, near_end));
      break;
    }
    case LoweredOp::kMseLossBackward:
      p.result(p.mul(p.mul(p.own(0), p.sub(p.x(1), p.x(2))), p.x(0)));
      break;
    default:
      return false;
  }
  return true;
}

}  // namespace neuron
