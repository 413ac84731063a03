// SPDX-License-Identifier: Apache-2.0
//
// MathEmitter: the functions of the kernels as inlined polynomials; bounds are in docs/numerics.md.
//
// float: exp, log, tanh, sigmoid and erf are evaluated in float; the others go through double
// (suffix `wide`), which leaves little more than the final rounding. double: libm by name. Fused
// multiply-adds are part of the definitions and are never formed otherwise, so every target gives
// the same bits. NaN gives NaN, and signed zeros, infinities and subnormals follow the C standard.
#pragma once

#include "neuron/host/codegen/value_emitter.h"

namespace neuron::codegen {

class MathEmitter {
 public:
  explicit MathEmitter(ValueEmitter& values) : v_(values), b_(values.b) {}

  // Null if the op is not a function of this class.
  Value* unary32(NestOp op, Value* x);
  Value* unary64(NestOp op, Value* x);
  Value* pow32(Value* x, Value* y);
  Value* atan2_32(Value* y, Value* x);
  Value* hypot32(Value* x, Value* y);
  Value* round(llvm::Intrinsic::ID id, Value* x) { return v_.unary_intrinsic(id, x); }

 private:
  struct WideExp {
    Value* minus_one;  // e^r - 1 for the reduced argument
    Value* scale;      // power of two
  };
  struct WideSinCos {
    Value* sin;
    Value* cos;
    Value* quadrant;  // i64, low two bits count
  };

  Value* exp32(Value* x, bool positive = true);  // positive: the argument may be
  Value* log32(Value* x);
  Value* tanh32(Value* x);
  Value* sigmoid32(Value* x);
  Value* erf32(Value* x);
  // Finite x >= 0 by d + rest, d in [1, 2^100] and rest the little that d was rounded by.
  Value* divide32(Value* x, Value* d, Value* rest);

  Value* unary_wide(NestOp op, Value* x);
  WideExp exp_parts(Value* x, double base_log2);  // of base^x; |result| within 2^+-1000
  Value* exp_wide(Value* x);
  Value* exp2_wide(Value* x);
  Value* expm1_wide(Value* x);
  Value* log_wide(Value* x);
  Value* log1p_wide(Value* x);
  Value* log_special(Value* x, Value* r);  // of 0, negatives, infinity and NaN
  Value* log_mantissa(Value* f, Value* exponent);
  void split(Value* x, Value** mantissa, Value** exponent);
  Value* trigonometric(NestOp op, Value* x32);
  void reduce_large(Value* x32, Value** r, Value** quadrant);
  WideSinCos sin_cos(Value* r, Value* quadrant);
  Value* atan_wide(Value* z);  // 0 <= z <= 1
  Value* asin_core(Value* z);  // 0 <= z <= 1/2
  Value* asin_acos(NestOp op, Value* x);
  Value* sinh_wide(Value* x);
  Value* asinh_wide(Value* x);
  Value* erfc_wide(Value* x);
  Value* erfinv_wide(Value* x);

  template <size_t N>
  Value* polynomial(Value* u, const float (&c)[N]);
  template <size_t N>
  Value* polynomial(Value* u, const double (&c)[N]);
  Value* widen(Value* x);
  Value* narrow(Value* x);

  ValueEmitter& v_;
  llvm::IRBuilder<>& b_;
};

template <size_t N>
Value* MathEmitter::polynomial(Value* u, const float (&c)[N]) {
  Value* p = v_.f32(u, c[N - 1]);
  for (size_t k = N - 1; k-- > 0;) p = v_.fma(p, u, v_.f32(u, c[k]));
  return p;
}

template <size_t N>
Value* MathEmitter::polynomial(Value* u, const double (&c)[N]) {
  Value* p = v_.f64(u, c[N - 1]);
  for (size_t k = N - 1; k-- > 0;) p = v_.fma(p, u, v_.f64(u, c[k]));
  return p;
}

}  // namespace neuron::codegen
