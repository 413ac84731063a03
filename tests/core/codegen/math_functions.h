// SPDX-License-Identifier: Apache-2.0
//
// The one-argument float32 functions with their published bounds, shared by the ULP checker and the
// tests. References are long double libm, good to 2^-60.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "neuron/host/kernel_args.h"
#include "neuron/host/kernel_object.h"
#include "neuron/host/kernel_runtime.h"
#include "neuron/host/loop_nest.h"

namespace neuron::ulp {

struct Function {
  NestOp op;
  double bound;  // in units of the last place of the exact result
  long double (*reference)(float);
};

inline const Function kFunctions[] = {
    {NestOp::kExp, 1.2, [](float x) { return std::exp(static_cast<long double>(x)); }},
    {NestOp::kExp2, 0.51, [](float x) { return std::exp2(static_cast<long double>(x)); }},
    {NestOp::kExpm1, 0.51, [](float x) { return std::expm1(static_cast<long double>(x)); }},
    {NestOp::kLog, 1.2, [](float x) { return std::log(static_cast<long double>(x)); }},
    {NestOp::kLog2, 0.51, [](float x) { return std::log2(static_cast<long double>(x)); }},
    {NestOp::kLog10, 0.51, [](float x) { return std::log10(static_cast<long double>(x)); }},
    {NestOp::kLog1p, 0.51, [](float x) { return std::log1p(static_cast<long double>(x)); }},
    {NestOp::kTanh, 2.0, [](float x) { return std::tanh(static_cast<long double>(x)); }},
    {NestOp::kSigmoid, 1.6,
     [](float x) {
       // In the form that does not cancel or overflow.
       long double e = std::exp(-std::fabs(static_cast<long double>(x)));
       return x < 0 ? e / (1 + e) : 1 / (1 + e);
     }},
    {NestOp::kSinh, 0.51, [](float x) { return std::sinh(static_cast<long double>(x)); }},
    {NestOp::kCosh, 0.51, [](float x) { return std::cosh(static_cast<long double>(x)); }},
    {NestOp::kSin, 0.51, [](float x) { return std::sin(static_cast<long double>(x)); }},
    {NestOp::kCos, 0.51, [](float x) { return std::cos(static_cast<long double>(x)); }},
    {NestOp::kTan, 0.51, [](float x) { return std::tan(static_cast<long double>(x)); }},
    {NestOp::kAsin, 0.51, [](float x) { return std::asin(static_cast<long double>(x)); }},
    {NestOp::kAcos, 0.51, [](float x) { return std::acos(static_cast<long double>(x)); }},
    {NestOp::kAtan, 0.51, [](float x) { return std::atan(static_cast<long double>(x)); }},
    {NestOp::kAsinh, 0.51, [](float x) { return std::asinh(static_cast<long double>(x)); }},
    {NestOp::kAcosh, 0.51, [](float x) { return std::acosh(static_cast<long double>(x)); }},
    {NestOp::kAtanh, 0.51, [](float x) { return std::atanh(static_cast<long double>(x)); }},
    {NestOp::kErf, 1.5, [](float x) { return std::erf(static_cast<long double>(x)); }},
    {NestOp::kErfc, 0.51, [](float x) { return std::erfc(static_cast<long double>(x)); }},
    {NestOp::kErfinv, 0.51, [](float x) { return static_cast<long double>(kernel_erfinv(x)); }},
    {NestOp::kSqrt, 0.5, [](float x) { return std::sqrt(static_cast<long double>(x)); }},
    {NestOp::kRsqrt, 1.5, [](float x) { return 1 / std::sqrt(static_cast<long double>(x)); }},
};

// Distance of `got` from the exact value in ULPs of the exact value as a float; infinity where a
// NaN, an infinity or the sign of a zero is wrong.
inline double error_in_ulp(long double exact, float got) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  float rounded = static_cast<float>(exact);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : kWrong;
  if (std::isnan(got)) return kWrong;
  if (std::isinf(exact) || exact == 0) {
    bool same = std::bit_cast<uint32_t>(rounded) == std::bit_cast<uint32_t>(got);
    return same ? 0 : kWrong;
  }
  if (std::signbit(rounded) != std::signbit(got)) return kWrong;
  // Overflow is judged as if the exponent went on.
  long double value =
      std::isinf(got) ? std::copysign(0x1p128L, static_cast<long double>(got)) : got;
  int exponent = std::ilogb(exact);
  if (exponent < -126) exponent = -126;
  if (exponent > 127) exponent = 127;
  if (std::isinf(got) && std::fabs(exact) >= 0x1p128L) return 0;
  if (!std::isinf(got) && std::fabs(exact) >= 0x1.000001p128L) return kWrong;
  return static_cast<double>(std::fabs(value - exact) / std::ldexp(1.0L, exponent - 23));
}

// One kernel of signature out = f(in) over contiguous floats.
inline void run(const KernelObject& object, float* x, float* y, int64_t count) {
  void* pointers[] = {x, y};
  int64_t strides[] = {1, 1}, index_strides[] = {0, 0};
  uint32_t status = 0;
  KernelArgs args{pointers, &count, strides, index_strides, nullptr, nullptr, nullptr, &status};
  object.entry(0)(&args, 0, count);
}

}  // namespace neuron::ulp
