// SPDX-License-Identifier: Apache-2.0
//
// Random fills and dropout; generator_ops.h says how random words become values.
#include <numbers>

#include "neuron/lower/pointwise.h"

namespace neuron {
namespace {

class RandomLowering {
 public:
  explicit RandomLowering(PointwiseLowering& p)
      : p_(p), b_(p.builder()), wide_(p.common() == DType::kFloat64) {}

  // Words `low` and `low` + 1 as one number.
  ValueId long_word(int low) {
    const ValueId high = b_.convert(DType::kInt64, p_.random_word(low + 1));
    const ValueId rest =
        p_.bin(IrOp::kAnd, b_.convert(DType::kInt64, p_.random_word(low)), whole(0xffffffff));
    return p_.bin(IrOp::kOr, p_.bin(IrOp::kShl, high, whole(32)), rest);
  }

  // A fraction of `digits` bits from word `first` on.
  ValueId fraction(int digits, int first = 0) { return scaled(low_bits(digits, first), digits); }
  // In the digits of the common dtype.
  ValueId fraction() {
    switch (p_.common()) {
      case DType::kFloat64:
        return fraction(53);
      case DType::kFloat16:
        return fraction(11);
      case DType::kBFloat16:
        return fraction(8);
      default:
        return fraction(24);
    }
  }
  // For comparisons with a probability.
  ValueId chance() { return fraction(wide_ ? 53 : 24); }
  ValueId open() {
    const int digits = wide_ ? 52 : 23;
    return scaled(p_.add(low_bits(digits, 0), b_.constant(type(), 0.5)), digits);
  }

  ValueId standard_normal() {
    const ValueId radius =
        p_.un(IrOp::kSqrt, p_.mul(b_.constant(type(), -2), p_.un(IrOp::kLog, open())));
    const ValueId turn = wide_ ? fraction(53, 2) : fraction(24, 1);
    const ValueId angle = p_.mul(b_.constant(type(), 2 * std::numbers::pi), turn);
    return p_.mul(radius, p_.un(IrOp::kCos, angle));
  }
  ValueId normal(ValueId mean, ValueId spread) {
    return p_.add(mean, p_.mul(spread, standard_normal()));
  }

  ValueId between(ValueId from, ValueId to) {
    const ValueId range = p_.sub(to, from);
    const ValueId bits = long_word(0);
    const ValueId all = p_.bin(IrOp::kEq, range, whole(0));
    return p_.add(from, p_.select(all, bits, high_product(bits, range)));
  }

  void dropout() {
    const ValueId one = b_.constant(DType::kFloat64, 1), zero = b_.constant(DType::kFloat64, 0);
    const ValueId kept = p_.sub(one, p_.own_f64(0));
    const ValueId scale = p_.select(p_.bin(IrOp::kEq, kept, zero), zero, p_.div(one, kept));
    const ValueId mask = p_.bin(IrOp::kLt, chance(), b_.convert(type(), kept));
    const ValueId x = p_.mul(p_.x(0), b_.convert(type(), mask));
    p_.result(0, p_.mul(x, b_.convert(type(), scale)));
    p_.result(1, mask);
  }

 private:
  DType type() const { return wide_ ? DType::kFloat64 : DType::kFloat32; }
  ValueId whole(int64_t v) { return b_.constant_int(DType::kInt64, v); }

  ValueId low_bits(int digits, int first) {
    if (wide_) {
      const ValueId mask = whole((int64_t{1} << digits) - 1);
      return b_.convert(type(), p_.bin(IrOp::kAnd, long_word(first), mask));
    }
    const ValueId mask = b_.constant_int(DType::kInt32, (int64_t{1} << digits) - 1);
    return b_.convert(type(), p_.bin(IrOp::kAnd, p_.random_word(first), mask));
  }
  ValueId scaled(ValueId v, int digits) {
    return p_.mul(v, b_.constant(type(), 1.0 / static_cast<double>(int64_t{1} << digits)));
  }

  // The upper half of the 128-bit product of unsigned numbers, by halves of 32 bits.
  ValueId high_product(ValueId a, ValueId b) {
    const auto low = [&](ValueId v) { return p_.bin(IrOp::kAnd, v, whole(0xffffffff)); };
    const auto high = [&](ValueId v) { return low(p_.bin(IrOp::kShr, v, whole(32))); };
    const ValueId inner = p_.mul(high(a), low(b)), outer = p_.mul(low(a), high(b));
    const ValueId carry = p_.add(high(p_.mul(low(a), low(b))), p_.add(low(inner), low(outer)));
    const ValueId top = p_.add(p_.mul(high(a), high(b)), high(carry));
    return p_.add(top, p_.add(high(inner), high(outer)));
  }

  PointwiseLowering& p_;
  GraphBuilder& b_;
  const bool wide_;
};

}  // namespace

bool lower_random(PointwiseLowering& p) {
  RandomLowering r(p);
  switch (p.op()) {
    case LoweredOp::kUniform: {
      const ValueId from = p.own(0), to = p.own(1);
      p.result(p.add(p.mul(r.fraction(), p.sub(to, from)), from));
      break;
    }
    case LoweredOp::kNormal:
      p.result(r.normal(p.x(0), p.x(1)));
      break;
    case LoweredOp::kLogNormal:
      p.result(p.exp(r.normal(p.own(0), p.own(1))));
      break;
    case LoweredOp::kExponential:
      p.result(p.div(p.un(IrOp::kNeg, p.un(IrOp::kLog, r.open())), p.own(0)));
      break;
    case LoweredOp::kCauchy: {
      const ValueId angle = p.mul(p.c(std::numbers::pi), p.sub(r.open(), p.c(0.5)));
      p.result(p.add(p.own(0), p.mul(p.own(1), p.un(IrOp::kTan, angle))));
      break;
    }
    case LoweredOp::kGeometric: {
      const ValueId failure = p.un(IrOp::kLog1p, p.un(IrOp::kNeg, p.own(0)));
      p.result(p.un(IrOp::kCeil, p.div(p.un(IrOp::kLog, r.open()), failure)));
      break;
    }
    case LoweredOp::kBernoulli:
      p.result(p.bin(IrOp::kLt, r.chance(), p.x(0)));
      break;
    case LoweredOp::kRandom:
      p.result(r.between(p.own_i64(0), p.own_i64(1)));
      break;
    case LoweredOp::kNativeDropout:
      r.dropout();
      break;
    default:
      return false;
  }
  return true;
}

}  // namespace neuron
