// SPDX-License-Identifier: Apache-2.0
//
// The eager mode of the process: `adaptive` fuses windows of operations, `strict` runs every
// operation alone. Both give the same bits. Starts as the configuration says; may change at any
// time, from any thread, and takes effect with the next window that runs. So that a change covers
// exactly the operations recorded after it, let the queues run dry first (Runtime::drain).
//
//   runtime.drain(SealReason::kSynchronize);
//   set_eager_mode(parse_eager_mode("strict"));
#pragma once

#include <cstdint>
#include <string_view>

namespace neuron {

enum class EagerMode : uint8_t { kAdaptive, kStrict };

EagerMode eager_mode();
void set_eager_mode(EagerMode mode);

const char* name(EagerMode mode);
// Throws kInvalidArgument.
EagerMode parse_eager_mode(std::string_view text);

}  // namespace neuron
