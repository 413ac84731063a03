// SPDX-License-Identifier: Apache-2.0
//
// Functions that generated kernels call, by symbol name: libm, and what libm lacks.
#pragma once

#include <string_view>

namespace neuron {

// Address of a function that kernels may call, or null.
void* kernel_runtime_symbol(std::string_view name);

// Inverse error function: |x| = 1 gives infinity, beyond NaN. Within 2 ULP of double.
double kernel_erfinv(double x);
double kernel_digamma(double x);
// log |gamma(x)|, without lgamma's global sign.
double kernel_lgamma(double x);

}  // namespace neuron
