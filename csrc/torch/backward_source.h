// SPDX-License-Identifier: Apache-2.0
//
// The forward lines of backward operations (see source.h): a table from autograd's sequence numbers
// to source lines, direct-mapped and lock-free, for all threads.
#pragma once

#include "neuron/ir/op_record.h"

namespace neuron::glue {

// `line` itself outside of a backward pass, and the pair of the forward line and `line` inside.
// Remembers the result for the autograd nodes that this thread created since its last call.
SourceId with_backward(SourceId line) noexcept;

}  // namespace neuron::glue
