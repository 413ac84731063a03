// SPDX-License-Identifier: Apache-2.0
//
// Float functions evaluated in double: exponentials, logarithms, powers, hyperbolic and error
// functions.
#include <limits>

#include "neuron/host/codegen/math_emitter.h"
#include "neuron/host/codegen/polynomials.h"

namespace neuron::codegen {

namespace Intrinsic = llvm::Intrinsic;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLn2High = 0x1.62e42fefap-1;  // 35 bits
constexpr double kLn2Low = 0x1.cf79abc9e3b39p-40;
constexpr double kLog2E = 0x1.71547652b82fep0;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kLog10E = 0x1.bcb7b1526e50ep-2;

}  // namespace

Value* MathEmitter::widen(Value* x) {
  return b_.CreateFPExt(x, v_.register_type(DType::kFloat64, x->getType()->isVectorTy()));
}

Value* MathEmitter::narrow(Value* x) {
  return b_.CreateFPTrunc(x, v_.register_type(DType::kFloat32, x->getType()->isVectorTy()));
}

Value* MathEmitter::unary_wide(NestOp op, Value* x) {
  auto number = [&](double c) { return v_.f64(x, c); };
  switch (op) {
    case NestOp::kExp2:
      return exp2_wide(x);
    case NestOp::kExpm1:
      return expm1_wide(x);
    case NestOp::kLog2:
      return b_.CreateFMul(log_wide(x), number(kLog2E));
    case NestOp::kLog10:
      return b_.CreateFMul(log_wide(x), number(kLog10E));
    case NestOp::kLog1p:
      return log1p_wide(x);
    case NestOp::kSinh:
      return sinh_wide(x);
    case NestOp::kCosh: {
      Value* e = exp_wide(v_.abs(x));
      return b_.CreateFMul(b_.CreateFAdd(e, b_.CreateFDiv(number(1), e)), number(0.5));
    }
    case NestOp::kAsin:
    case NestOp::kAcos:
      return asin_acos(op, x);
    case NestOp::kAtan: {
      Value* a = v_.abs(x);
      Value* inverse = b_.CreateFCmpOGT(a, number(1));
      Value* r = atan_wide(b_.CreateSelect(inverse, b_.CreateFDiv(number(1), a), a));
      r = b_.CreateSelect(inverse, b_.CreateFSub(number(0x1.921fb54442d18p0), r), r);
      return v_.copysign(r, x);
    }
    case NestOp::kAsinh:
      return asinh_wide(x);
    case NestOp::kAcosh: {
      Value* t = b_.CreateFSub(x, number(1));
      Value* root = v_.unary_intrinsic(Intrinsic::sqrt, v_.fma(t, t, b_.CreateFAdd(t, t)));
      Value* r = log1p_wide(b_.CreateFAdd(t, root));
      return b_.CreateSelect(b_.CreateFCmpULT(x, number(1)), number(kNan), r);
    }
    case NestOp::kAtanh: {
      Value* a = v_.abs(x);
      Value* r = log1p_wide(b_.CreateFDiv(b_.CreateFAdd(a, a), b_.CreateFSub(number(1), a)));
      r = b_.CreateFMul(r, number(0.5));
      r = b_.CreateSelect(b_.CreateFCmpUGT(a, number(1)), number(kNan), r);
      return v_.copysign(r, x);
    }
    case NestOp::kErfc:
      return erfc_wide(x);
    case NestOp::kErfinv:
      return erfinv_wide(x);
    case NestOp::kLgamma:
      return v_.call_libm("neuron_lgamma", {x});
    case NestOp::kDigamma:
      return v_.call_libm("neuron_digamma", {x});
    default:
      return nullptr;
  }
}

MathEmitter::WideExp MathEmitter::exp_parts(Value* x, double base_log2) {
  constexpr double kMagic = 0x1.8p52;
  Value* bound = v_.f64(x, 1000.0 / base_log2);
  Value* low = b_.CreateFNeg(bound);
  x = b_.CreateSelect(b_.CreateFCmpOLT(x, low), low, x);
  x = b_.CreateSelect(b_.CreateFCmpOGT(x, bound), bound, x);
  Value* t = v_.fma(x, v_.f64(x, base_log2), v_.f64(x, kMagic));
  Value* n = b_.CreateFSub(t, v_.f64(x, kMagic));
  Value* r = nullptr;
  if (base_log2 == 1.0) {
    r = b_.CreateFMul(b_.CreateFSub(x, n), v_.f64(x, kLn2));
  } else {
    r = v_.fma(n, v_.f64(x, -kLn2High), x);
    r = v_.fma(n, v_.f64(x, -kLn2Low), r);
  }
  Value* scale = b_.CreateShl(v_.to_int_bits(t), v_.i64(x, 52));
  scale = v_.to_float_bits(b_.CreateAdd(scale, v_.i64(x, 0x3ff0000000000000)));
  return {b_.CreateFMul(r, polynomial(r, kExp64)), scale};
}

Value* MathEmitter::exp_wide(Value* x) {
  WideExp e = exp_parts(x, kLog2E);
  return v_.fma(e.scale, e.minus_one, e.scale);
}

Value* MathEmitter::exp2_wide(Value* x) {
  WideExp e = exp_parts(x, 1.0);
  return v_.fma(e.scale, e.minus_one, e.scale);
}

Value* MathEmitter::expm1_wide(Value* x) {
  WideExp e = exp_parts(x, kLog2E);
  Value* r = v_.fma(e.scale, e.minus_one, b_.CreateFSub(e.scale, v_.f64(x, 1.0)));
  return v_.copysign(r, x);  // the sign of a zero
}

void MathEmitter::split(Value* x, Value** mantissa, Value** exponent) {
  Value* u = v_.to_int_bits(x);
  Value* e = b_.CreateAShr(b_.CreateSub(u, v_.i64(u, 0x3fe6a09e667f3bcd)), v_.i64(u, 52));
  *mantissa = v_.to_float_bits(b_.CreateSub(u, b_.CreateShl(e, v_.i64(u, 52))));
  Type* narrow = v_.register_type(DType::kInt32, x->getType()->isVectorTy());
  *exponent = b_.CreateSIToFP(b_.CreateTrunc(e, narrow), x->getType());
}

Value* MathEmitter::log_mantissa(Value* f, Value* exponent) {
  // log(1 + f) = 2 atanh(f / (2 + f))
  Value* s = b_.CreateFDiv(f, b_.CreateFAdd(f, v_.f64(f, 2.0)));
  Value* u = b_.CreateFMul(s, s);
  Value* half = v_.fma(b_.CreateFMul(s, u), polynomial(u, kLog64), s);
  return v_.fma(exponent, v_.f64(f, kLn2), b_.CreateFAdd(half, half));
}

Value* MathEmitter::log_special(Value* x, Value* r) {
  Value* zero = v_.f64(x, 0.0);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(x, v_.f64(x, kInf)), x, r);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(x, zero), v_.f64(x, -kInf), r);
  return b_.CreateSelect(b_.CreateFCmpULT(x, zero), v_.f64(x, kNan), r);
}

Value* MathEmitter::log_wide(Value* x) {
  Value *m = nullptr, *e = nullptr;
  split(x, &m, &e);
  return log_special(x, log_mantissa(b_.CreateFSub(m, v_.f64(x, 1.0)), e));
}

Value* MathEmitter::log1p_wide(Value* x) {
  Value* one = v_.f64(x, 1.0);
  Value* y = b_.CreateFAdd(x, one);
  Value *m = nullptr, *e = nullptr;
  split(y, &m, &e);
  // Near 1 the argument itself is the exact distance.
  Value* near = b_.CreateFCmpOEQ(e, v_.f64(x, 0.0));
  Value* f = b_.CreateSelect(near, x, b_.CreateFSub(m, one));
  Value* r = log_special(y, log_mantissa(f, e));
  return b_.CreateSelect(b_.CreateFCmpOEQ(x, v_.f64(x, 0.0)), x, r);
}

Value* MathEmitter::sinh_wide(Value* x) {
  Value* t = expm1_wide(v_.abs(x));
  Value* r = b_.CreateFAdd(t, b_.CreateFDiv(t, b_.CreateFAdd(t, v_.f64(x, 1.0))));
  return v_.copysign(b_.CreateFMul(r, v_.f64(x, 0.5)), x);
}

Value* MathEmitter::asinh_wide(Value* x) {
  Value* a = v_.abs(x);
  Value* one = v_.f64(x, 1.0);
  Value* u = b_.CreateFMul(a, a);
  Value* root = v_.unary_intrinsic(Intrinsic::sqrt, b_.CreateFAdd(u, one));
  Value* r = log1p_wide(b_.CreateFAdd(a, b_.CreateFDiv(u, b_.CreateFAdd(root, one))));
  r = b_.CreateSelect(b_.CreateFCmpOEQ(a, v_.f64(x, kInf)), a, r);
  return v_.copysign(r, x);
}

Value* MathEmitter::erfc_wide(Value* x) {
  Value* limit = v_.f64(x, 10.5);
  Value* a = v_.abs(x);
  a = b_.CreateSelect(b_.CreateFCmpOGT(a, limit), limit, a);
  Value* two = v_.f64(x, 2.0);
  Value* t = b_.CreateFDiv(b_.CreateFSub(a, two), b_.CreateFAdd(a, two));
  Value* tail = b_.CreateFMul(polynomial(t, kErfc64), exp_wide(b_.CreateFNeg(b_.CreateFMul(a, a))));
  return b_.CreateSelect(b_.CreateFCmpOLT(x, v_.f64(x, 0.0)), b_.CreateFSub(two, tail), tail);
}

Value* MathEmitter::erfinv_wide(Value* x) {
  Value* w = b_.CreateFNeg(log1p_wide(b_.CreateFNeg(b_.CreateFMul(x, x))));
  Value* low = polynomial(b_.CreateFSub(w, v_.f64(x, 2.5)), kErfinvLow64);
  Value* root = v_.unary_intrinsic(Intrinsic::sqrt, w);
  Value* high = polynomial(b_.CreateFSub(root, v_.f64(x, 3.0)), kErfinvHigh64);
  Value* p = b_.CreateSelect(b_.CreateFCmpOLT(w, v_.f64(x, 5.0)), low, high);
  Value* r = b_.CreateFMul(x, p);
  Value* a = v_.abs(x);
  r = b_.CreateSelect(b_.CreateFCmpOEQ(a, v_.f64(x, 1.0)), v_.copysign(v_.f64(x, kInf), x), r);
  return b_.CreateSelect(b_.CreateFCmpUGT(a, v_.f64(x, 1.0)), v_.f64(x, kNan), r);
}

Value* MathEmitter::pow32(Value* x32, Value* y32) {
  Value* x = widen(x32);
  Value* y = widen(y32);
  Value* zero = v_.f64(x, 0.0);
  Value* one = v_.f64(x, 1.0);
  Value* a = v_.abs(x);
  Value* power = b_.CreateFMul(y, b_.CreateFMul(log_wide(a), v_.f64(x, kLog2E)));
  Value* r = exp2_wide(power);
  // Sign and domain of negative bases.
  Value* half = b_.CreateFMul(y, v_.f64(x, 0.5));
  Value* whole = b_.CreateFCmpOEQ(round(Intrinsic::floor, y), y);
  Value* even = b_.CreateFCmpOEQ(round(Intrinsic::floor, half), half);
  Value* odd = b_.CreateAnd(whole, b_.CreateNot(even));
  r = b_.CreateSelect(b_.CreateFCmpOEQ(a, one), one, r);  // also 1 to the infinity
  r = b_.CreateSelect(b_.CreateAnd(b_.CreateFCmpOEQ(a, one), v_.is_nan(y)), y, r);
  r = b_.CreateSelect(odd, v_.copysign(r, x), r);
  Value* outside = b_.CreateAnd(b_.CreateFCmpOLT(x, zero), b_.CreateNot(whole));
  outside = b_.CreateAnd(outside, b_.CreateFCmpONE(a, v_.f64(x, kInf)));
  r = b_.CreateSelect(outside, v_.f64(x, kNan), r);
  Value* trivial = b_.CreateOr(b_.CreateFCmpOEQ(y, zero), b_.CreateFCmpOEQ(x, one));
  return narrow(b_.CreateSelect(trivial, one, r));
}

Value* MathEmitter::hypot32(Value* x32, Value* y32) {
  Value* x = widen(x32);
  Value* y = widen(y32);
  Value* r = v_.unary_intrinsic(Intrinsic::sqrt, v_.fma(x, x, b_.CreateFMul(y, y)));
  Value* inf = v_.f64(x, kInf);
  Value* infinite = b_.CreateOr(b_.CreateFCmpOEQ(v_.abs(x), inf), b_.CreateFCmpOEQ(v_.abs(y), inf));
  return narrow(b_.CreateSelect(infinite, inf, r));
}

}  // namespace neuron::codegen
