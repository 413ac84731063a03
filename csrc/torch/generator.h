// SPDX-License-Identifier: Apache-2.0
//
// Random numbers: the counter-based Philox generator of the device. Its state is a seed and an
// offset; an operation reserves a range of offsets when it is recorded, so that numbers do not
// depend on when or on how many threads it runs.
//
// Generators live on the host and need no device: seeding works before the first use of a device.
// The state is 16 bytes, seed then offset, as PyTorch's other Philox generators have it. Two
// generators may share one state (graphsafe_set_state).
//
// Threading: as with every at::Generator, callers hold `mutex_` around changes; `reserve` does.
//
//   PhiloxState state = reserve(generator, device, numel);   // then draw from (seed, offset)
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

namespace neuron::glue {

struct PhiloxState {
  uint64_t seed;
  uint64_t offset;
};

// Takes `count` numbers (rounded up to a multiple of 4) out of `generator`, or out of the device's
// default generator, and returns the state before. Throws if the generator is not a neuron one.
PhiloxState reserve(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                    uint64_t count);

// The generator of a device (-1: the current one) that operations use by default. Throws for an
// index out of range.
const at::Generator& default_generator(c10::DeviceIndex device);
// A new one with the default seed.
at::Generator new_generator(c10::DeviceIndex device);

}  // namespace neuron::glue
