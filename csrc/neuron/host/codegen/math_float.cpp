// SPDX-License-Identifier: Apache-2.0
//
// Functions evaluated in float, and the dispatch of float and double functions.
#include <limits>

#include <llvm/IR/IntrinsicsX86.h>

#include "neuron/host/codegen/math_emitter.h"
#include "neuron/host/codegen/polynomials.h"
#include "neuron/host/kernel_args.h"

namespace neuron::codegen {

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLn2High = 0x1.62e4p-1f;  // 15 bits: products with exponents are exact
constexpr float kLn2Low = 0x1.7f7d1cf8p-20f;

}  // namespace

Value* MathEmitter::unary32(NestOp op, Value* x) {
  switch (op) {
    case NestOp::kExp:
      return exp32(x);
    case NestOp::kLog:
      return log32(x);
    case NestOp::kTanh:
      return tanh32(x);
    case NestOp::kSigmoid:
      return sigmoid32(x);
    case NestOp::kErf:
      return erf32(x);
    case NestOp::kSin:
    case NestOp::kCos:
    case NestOp::kTan:
      return trigonometric(op, x);
    default: {
      Value* wide = unary_wide(op, widen(x));
      return wide == nullptr ? nullptr : narrow(wide);
    }
  }
}

Value* MathEmitter::unary64(NestOp op, Value* x) {
  switch (op) {
    case NestOp::kErfinv:
      return v_.call_libm("neuron_erfinv", {x});
    case NestOp::kLgamma:
      return v_.call_libm("neuron_lgamma", {x});
    case NestOp::kDigamma:
      return v_.call_libm("neuron_digamma", {x});
    case NestOp::kSigmoid: {
      Value* one = v_.f64(x, 1.0);
      return b_.CreateFDiv(one, b_.CreateFAdd(one, v_.call_libm("exp", {b_.CreateFNeg(x)})));
    }
    case NestOp::kExp:
    case NestOp::kExp2:
    case NestOp::kExpm1:
    case NestOp::kLog:
    case NestOp::kLog2:
    case NestOp::kLog10:
    case NestOp::kLog1p:
    case NestOp::kTanh:
    case NestOp::kSinh:
    case NestOp::kCosh:
    case NestOp::kSin:
    case NestOp::kCos:
    case NestOp::kTan:
    case NestOp::kAsin:
    case NestOp::kAcos:
    case NestOp::kAtan:
    case NestOp::kAsinh:
    case NestOp::kAcosh:
    case NestOp::kAtanh:
    case NestOp::kErf:
    case NestOp::kErfc:
      return v_.call_libm(name(op), {x});
    default:
      return nullptr;
  }
}

Value* MathEmitter::exp32(Value* x, bool positive) {
  // e^x = 2^n (1 + r + r^2 P(r)); a large constant rounds n = x log2(e) and leaves it in the low
  // bits.
  constexpr float kMagic = 0x1.8p23f;
  Value* low = v_.f32(x, -104.0f);
  x = b_.CreateSelect(b_.CreateFCmpOLT(x, low), low, x);
  if (positive) {
    Value* high = v_.f32(x, 104.0f);
    x = b_.CreateSelect(b_.CreateFCmpOGT(x, high), high, x);
  }
  Value* t = v_.fma(x, v_.f32(x, 0x1.715476p0f), v_.f32(x, kMagic));
  Value* n = b_.CreateFSub(t, v_.f32(x, kMagic));
  Value* r = v_.fma(n, v_.f32(x, -kLn2High), x);
  r = v_.fma(n, v_.f32(x, -kLn2Low), r);
  Value* p = v_.fma(b_.CreateFMul(r, r), polynomial(r, kExp32), r);
  p = b_.CreateFAdd(p, v_.f32(x, 1.0f));
  if (v_.features().avx512 && x->getType()->isVectorTy())
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                              {p, n, p, b_.getInt16(-1), b_.getInt32(4)});
  // Two factors, so that subnormal results round once and overflow gives infinity.
  Value* k = b_.CreateSub(v_.to_int_bits(t), v_.i32(x, 0x4b400000));
  Value* k1 = b_.CreateAShr(k, v_.i32(x, 1));
  Value* k2 = b_.CreateSub(k, k1);
  auto power = [&](Value* e) {
    return v_.to_float_bits(b_.CreateShl(b_.CreateAdd(e, v_.i32(x, 127)), v_.i32(x, 23)));
  };
  return b_.CreateFMul(b_.CreateFMul(p, power(k1)), power(k2));
}

Value* MathEmitter::log32(Value* x) {
  // x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f - f^2/2 + f^3 P(f).
  Value* tiny = b_.CreateFCmpOLT(x, v_.f32(x, 0x1p-126f));
  Value* scaled = b_.CreateSelect(tiny, b_.CreateFMul(x, v_.f32(x, 0x1p23f)), x);
  Value* u = v_.to_int_bits(scaled);
  Value* e = b_.CreateAShr(b_.CreateSub(u, v_.i32(u, 0x3f3504f3)), v_.i32(u, 23));
  Value* m = v_.to_float_bits(b_.CreateSub(u, b_.CreateShl(e, v_.i32(u, 23))));
  Value* f = b_.CreateFSub(m, v_.f32(x, 1.0f));
  Value* exponent = b_.CreateSIToFP(e, x->getType());
  exponent = b_.CreateSelect(tiny, b_.CreateFSub(exponent, v_.f32(x, 23.0f)), exponent);
  Value* f2 = b_.CreateFMul(f, f);
  Value* y = b_.CreateFMul(exponent, v_.f32(x, kLn2Low));
  y = v_.fma(b_.CreateFMul(f, f2), polynomial(f, kLog32), y);
  y = b_.CreateFAdd(v_.fma(f2, v_.f32(x, -0.5f), y), f);
  y = v_.fma(exponent, v_.f32(x, kLn2High), y);
  Value* zero = v_.f32(x, 0.0f);
  y = b_.CreateSelect(b_.CreateFCmpOEQ(x, v_.f32(x, kInf)), x, y);
  y = b_.CreateSelect(b_.CreateFCmpOEQ(x, zero), v_.f32(x, -kInf), y);
  return b_.CreateSelect(b_.CreateFCmpULT(x, zero), v_.f32(x, kNan), y);
}

Value* MathEmitter::divide32(Value* x, Value* d, Value* rest) {
  // Subtracting the bits guesses 1/d up to a factor d y of 0.707 to 0.729, whose inverse is a
  // parabola with a relative error of 9e-7; then a Newton step on the quotient itself. Cheaper than
  // a division of 16 lanes.
  Value* y = v_.to_float_bits(b_.CreateSub(v_.i32(d, 0x7eb50000), v_.to_int_bits(d)));
  Value* t = b_.CreateFMul(d, y);
  Value* inverse = v_.fma(t, v_.f32(d, 2.7047982f), v_.f32(d, -5.8241887f));
  y = b_.CreateFMul(y, v_.fma(t, inverse, v_.f32(d, 4.1801367f)));
  Value* q = b_.CreateFMul(x, y);
  Value* left = v_.fma(b_.CreateFNeg(d), q, x);
  return v_.fma(v_.fma(b_.CreateFNeg(rest), q, left), y, q);
}

Value* MathEmitter::tanh32(Value* x) {
  // F / (F + 1) with F = (e^(2|x|) - 1) / 2 = 2^n (1/2 + p) - 1/2, which keeps its digits near
  // zero. The large constant leaves n with the bias of exponents in the low bits.
  constexpr float kMagic = 0x1.8p23f + 127;
  Value* one = v_.f32(x, 1.0f);
  Value* half = v_.f32(x, 0.5f);
  Value* limit = v_.f32(x, 10.0f);
  Value* a = v_.abs(x);
  a = b_.CreateSelect(b_.CreateFCmpOGT(a, limit), limit, a);
  Value* t = v_.fma(a, v_.f32(x, 0x1.715476p1f), v_.f32(x, kMagic));
  Value* n = b_.CreateFSub(t, v_.f32(x, kMagic));
  Value* r = v_.fma(n, v_.f32(x, -kLn2High / 2), a);
  r = v_.fma(n, v_.f32(x, -kLn2Low / 2), r);
  // The polynomial of exp for 2r, half of it.
  float c[std::size(kExp32)];
  float power = 2;
  for (size_t k = 0; k < std::size(c); ++k, power *= 2) c[k] = kExp32[k] * power;
  Value* p = v_.fma(b_.CreateFMul(r, r), polynomial(r, c), r);
  Value* scale = v_.to_float_bits(b_.CreateShl(v_.to_int_bits(t), v_.i32(x, 23)));
  Value* f = v_.fma(scale, p, v_.fma(scale, half, b_.CreateFNeg(half)));
  Value* d = b_.CreateFAdd(f, one);
  return v_.copysign(divide32(f, d, b_.CreateFSub(f, b_.CreateFSub(d, one))), x);
}

Value* MathEmitter::sigmoid32(Value* x) {
  // Of -|x|, so that nothing overflows: e / (1 + e) below zero, 1 / (1 + e) above.
  Value* e = exp32(b_.CreateFNeg(v_.abs(x)), /*positive=*/false);
  Value* one = v_.f32(x, 1.0f);
  Value* top = b_.CreateSelect(b_.CreateFCmpOLT(x, v_.f32(x, 0.0f)), e, one);
  Value* d = b_.CreateFAdd(e, one);
  return divide32(top, d, b_.CreateFSub(e, b_.CreateFSub(d, one)));
}

Value* MathEmitter::erf32(Value* x) {
  Value* a = v_.abs(x);
  Value* u = b_.CreateFMul(x, x);
  Value* small = v_.fma(a, polynomial(u, kErf32), a);
  Value* limit = v_.f32(x, 4.0f);
  Value* bounded = b_.CreateSelect(b_.CreateFCmpOGT(a, limit), limit, a);
  Value* large = b_.CreateFSub(v_.f32(x, 1.0f), exp32(polynomial(bounded, kLogErfc32)));
  Value* r = b_.CreateSelect(b_.CreateFCmpOLT(a, v_.f32(x, 0.921875f)), small, large);
  return v_.copysign(r, x);
}

}  // namespace neuron::codegen
