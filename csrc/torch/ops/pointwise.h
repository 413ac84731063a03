// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files that register pointwise operators: outputs and the usual record.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>

#include <initializer_list>

#include "torch/op_call.h"
#include "torch/ops/tiles.h"

namespace neuron::glue {

// Queues `body`: operand 0 is `out`, then come the inputs. In-place: `out` is an input, too.
template <typename Body>
void record_pointwise(const char* name, const at::Tensor& out,
                      std::initializer_list<at::Tensor> inputs, Body body,
                      Split split = Split::kPointwise) {
  OpCall call(name);
  call.write(out);
  for (const at::Tensor& input : inputs) call.read(input);
  call.record(split, std::move(body));
}

// A fresh output for inputs that broadcast together, laid out as PyTorch would.
inline at::Tensor broadcast_output(at::ScalarType dtype, const c10::Device& device,
                                   std::initializer_list<at::Tensor> inputs) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).check_all_same_device(false);
  config.declare_static_dtype_and_device(dtype, device);
  config.add_owned_output(at::Tensor());
  for (const at::Tensor& input : inputs) config.add_owned_const_input(input);
  return config.build().output();
}

// The device of the first input that is not a number from the host.
inline c10::Device device_of(std::initializer_list<at::Tensor> inputs) {
  for (const at::Tensor& input : inputs) {
    if (input.device().type() != c10::kCPU) return input.device();
  }
  return inputs.begin()->device();
}

}  // namespace neuron::glue
