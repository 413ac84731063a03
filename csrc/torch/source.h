// SPDX-License-Identifier: Apache-2.0
//
// The user's source line of the operation being recorded.
//
// The calling thread's own Python frames are read without the GIL: only this thread changes them.
// The first frame outside PyTorch and this package is the user's. A (code object, instruction) pair
// is resolved to "file:line in function" under the GIL when it is first seen; the code object is
// kept from then on, so that its address stays unique.
//
// Backward. Autograd numbers its nodes per thread, and creates the node of a differentiable
// operation before the operation's kernel runs. So the kernel's line is remembered under the newest
// number (and under older ones that nothing was recorded for: views, which record nothing, get the
// line of the operation that follows them). An operation recorded while a node is evaluated, on
// whatever thread, gets the pair of the node's line and the current one, which is that of
// `loss.backward()` or of the user's own backward function. The last 65,536 numbers are kept;
// without one the current line stands alone.
#pragma once

#include <string>
#include <vector>

#include "neuron/ir/op_record.h"

namespace neuron::glue {

// 0 when there is no Python frame, or with TORCH_NEURONX_ENABLE_STACK_TRACE=0. Called once by every
// kernel that records, before or after its other work.
SourceId current_source() noexcept;

// Directories whose code is not the user's (PyTorch's and this package's). Set once, before the
// first operation.
void set_library_paths(std::vector<std::string> directories);

}  // namespace neuron::glue
