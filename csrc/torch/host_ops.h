// SPDX-License-Identifier: Apache-2.0
//
// Host ops: every operator without a kernel of its own runs ATen's CPU kernel on aliased memory.
//
// Operators whose outputs are sized when they arrive (in-place forms) are queued. The others wait for
// the current stream, run on the calling thread, and the memory of their results is adopted without a
// copy; results that are views of an argument become views of the device tensor, resized out=
// arguments keep their new geometry. Random operators draw from the device's generator.
#pragma once

#include <ATen/core/stack.h>

namespace c10 {
class OperatorHandle;
}

namespace neuron::glue {

// The boxed kernel behind the fallback; arguments on the stack are replaced by the results.
void run_host_op(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace neuron::glue
