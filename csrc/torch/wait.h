// SPDX-License-Identifier: Apache-2.0
//
// Waits of the glue: the points where the host needs values.
#pragma once

#include <ATen/core/Tensor.h>

#include "neuron/runtime/stream.h"

namespace neuron::glue {

// Returns when everything recorded on `stream` so far has run; raises its first unreported error.
void wait_for(Stream& stream, SealReason reason);

// Raises the error that poisoned `tensor`, if any. Call after the wait.
void check_readable(const at::Tensor& tensor);

}  // namespace neuron::glue
