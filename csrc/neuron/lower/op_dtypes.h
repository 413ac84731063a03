// SPDX-License-Identifier: Apache-2.0
//
// Which common dtypes the lowering of an operation takes.
#pragma once

#include "neuron/ir/dtype.h"
#include "neuron/lower/op_table.h"

namespace neuron {

// Common dtype as in op_table.h. Operations that are not named take the floating ones.
bool takes_common_dtype(LoweredOp op, DType common);

}  // namespace neuron
