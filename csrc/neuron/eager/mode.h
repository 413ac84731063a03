// SPDX-License-Identifier: Apache-2.0
//
// The eager mode of the process: `adaptive` fuses windows of operations, `strict` runs every
// operation alone. Both give the same bits. Starts as the configuration says; may change at any
// time, from any thread, and takes effect with the next window.
#pragma once

#include <cstdint>

namespace neuron {

enum class EagerMode : uint8_t { kAdaptive, kStrict };

EagerMode eager_mode();
void set_eager_mode(EagerMode mode);

}  // namespace neuron
