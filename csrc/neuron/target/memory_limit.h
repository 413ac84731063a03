// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process may use: the machine's, or less in a container.
#pragma once

#include <cstdint>
#include <string>

namespace neuron {

// In bytes: the smallest of MemTotal and the limits of the control groups (versions 1 and 2) that
// the process is in, those of their parents included. Reads below `root`, which is "" outside of
// tests. Throws kInternal if the system does not tell its memory.
int64_t memory_limit(const std::string& root = "");

}  // namespace neuron
