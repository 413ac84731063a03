// SPDX-License-Identifier: Apache-2.0
//
// The dtype of the statistics that ATen's CPU kernels keep beside a normalised tensor.
#pragma once

#include <ATen/native/cpu/mixed_data_type.h>

namespace neuron::glue {

inline at::ScalarType statistics_type(const at::Tensor& input, const at::Tensor& weight,
                                      const at::Tensor& bias) {
  const bool mixed = at::native::is_mixed_type(input, weight, bias);
  if (mixed) at::native::check_mixed_data_type(input, weight, bias);
  return at::native::param_scalar_type(input, mixed);
}

}  // namespace neuron::glue
