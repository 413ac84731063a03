// SPDX-License-Identifier: Apache-2.0
//
// Operators that concern a tensor's memory and identity rather than its values.
#include <torch/library.h>

#include "torch/current.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

void record_stream(at::Tensor& self, c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == kNeuron, "record_stream: expected a neuron stream, got ",
              stream);
  if (Block* block = block_of(self)) block->pool()->record_stream(block, &from_c10(stream));
}

bool is_plain_dense(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kDense(c10::DispatchKey::Dense);
  constexpr c10::DispatchKeySet kBackends(
      {c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit});
  return tensor.key_set().has_any(kDense) && tensor.key_set().has_any(kBackends);
}

// Lets Module.to("neuron") and `param.data = ...` change the device of a tensor in place, so that an
// optimizer built before keeps training the module's parameters.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  return self.key_set() == from.key_set() || (is_plain_dense(self) && is_plain_dense(from));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("record_stream", record_stream);
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

}  // namespace
}  // namespace neuron::glue
