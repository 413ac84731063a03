// SPDX-License-Identifier: Apache-2.0
//
// The forward lines of backward operations (see source.h): a table from autograd's sequence numbers
// to source lines, direct-mapped and lock-free, for all threads.
#pragma once

#include "neuron/ir/op_record.h"

namespace neuron::glue {

// `line` itself outside of a backward pass, and the pair of the forward line and `line` inside.
// Remembers it for the autograd nodes that this thread created since its last call: the pair if the
// operation comes straight from autograd's engine, which has no line of its own, but `line` if it
// is in Python code that the pass runs (an own function, a recomputed forward).
SourceId with_backward(SourceId line, bool from_engine) noexcept;

}  // namespace neuron::glue
