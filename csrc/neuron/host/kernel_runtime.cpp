// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/kernel_runtime.h"

#include <cmath>
#include <limits>
#include <unordered_map>

namespace neuron {
namespace {

// A guess good to a few digits (Winitzki's formula), for Newton's method to finish.
double erfinv_guess(double x) {
  constexpr double kA = 0.147;
  double w = std::log1p(-x * x);
  double t = 2 / (M_PI * kA) + w / 2;
  return std::copysign(std::sqrt(std::sqrt(t * t - w / kA) - t), x);
}

}  // namespace

double kernel_erfinv(double x) {
  double a = std::fabs(x);
  if (!(a <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (a == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (a < 1e-9) return x * (std::sqrt(M_PI) / 2);
  double y = std::fabs(erfinv_guess(x));
  for (int step = 0; step < 4; ++step) {
    // Halley's method; the complement keeps the digits near 1.
    double error = a > 0.5 ? (1 - a) - std::erfc(y) : std::erf(y) - a;
    double u = error / (2 / std::sqrt(M_PI) * std::exp(-y * y));
    y -= u / (1 + y * u);
  }
  return std::copysign(y, x);
}

double kernel_digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double result = 0;
  if (x < 0) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    // Reflection; the fraction keeps the tangent's argument small.
    double whole = 0;
    result = -M_PI / std::tan(M_PI * std::modf(x, &whole));
    x = 1 - x;
  }
  while (x < 10) {
    result -= 1 / x;
    x += 1;
  }
  // Asymptotic series with Bernoulli numbers.
  double z = 1 / (x * x);
  double series =
      z * (1.0 / 12 -
           z * (1.0 / 120 -
                z * (1.0 / 252 -
                     z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
  return result + std::log(x) - 0.5 / x - series;
}

double kernel_lgamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

void* kernel_runtime_symbol(std::string_view name) {
  using One = double (*)(double);
  using Two = double (*)(double, double);
  auto one = [](One f) { return reinterpret_cast<void*>(f); };
  auto two = [](Two f) { return reinterpret_cast<void*>(f); };
  auto one_float = [](float (*f)(float)) { return reinterpret_cast<void*>(f); };
  static const std::unordered_map<std::string_view, void*> kSymbols = {
      {"exp", one(::exp)},
      {"exp2", one(::exp2)},
      {"expm1", one(::expm1)},
      {"log", one(::log)},
      {"log2", one(::log2)},
      {"log10", one(::log10)},
      {"log1p", one(::log1p)},
      {"tanh", one(::tanh)},
      {"sinh", one(::sinh)},
      {"cosh", one(::cosh)},
      {"sin", one(::sin)},
      {"cos", one(::cos)},
      {"tan", one(::tan)},
      {"asin", one(::asin)},
      {"acos", one(::acos)},
      {"atan", one(::atan)},
      {"asinh", one(::asinh)},
      {"acosh", one(::acosh)},
      {"atanh", one(::atanh)},
      {"erf", one(::erf)},
      {"erfc", one(::erfc)},
      {"floor", one(::floor)},
      {"ceil", one(::ceil)},
      {"trunc", one(::trunc)},
      {"roundeven", one(::roundeven)},
      {"floorf", one_float(::floorf)},
      {"ceilf", one_float(::ceilf)},
      {"truncf", one_float(::truncf)},
      {"roundevenf", one_float(::roundevenf)},
      {"fmod", two(::fmod)},
      {"fmodf", reinterpret_cast<void*>(static_cast<float (*)(float, float)>(::fmodf))},
      {"pow", two(::pow)},
      {"atan2", two(::atan2)},
      {"hypot", two(::hypot)},
      {"fma", reinterpret_cast<void*>(static_cast<double (*)(double, double, double)>(::fma))},
      {"fmaf", reinterpret_cast<void*>(static_cast<float (*)(float, float, float)>(::fmaf))},
      {"neuron_erfinv", one(kernel_erfinv)},
      {"neuron_digamma", one(kernel_digamma)},
      {"neuron_lgamma", one(kernel_lgamma)},
  };
  auto found = kSymbols.find(name);
  return found == kSymbols.end() ? nullptr : found->second;
}

}  // namespace neuron
