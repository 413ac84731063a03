// SPDX-License-Identifier: Apache-2.0
//
// The host processor: how many there are for this process, and what a spinning thread tells it.
#pragma once

namespace neuron {

// Hint that this thread spins, so that its sibling gets the core's resources.
inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Processors that this process may run on (affinity mask), at least 1.
int usable_processors();

}  // namespace neuron
