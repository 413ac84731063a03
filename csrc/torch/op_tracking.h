// SPDX-License-Identifier: Apache-2.0
//
// Op tracking: how often each operator ran and by which route, since the start or the last clear.
// Counting is lock-free; names must have static lifetime.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace neuron::glue {

enum class Route : uint8_t {
  kLowered,        // recorded in lowered form: a kernel of our own
  kDevice,         // the backend's own work: copies from and to the host
  kHostKernel,     // registered for neuron, computed by ATen's CPU kernel, queued
  kHostOpQueued,   // not registered: ATen's CPU kernel, queued because its outputs are sized
  kHostOpWaiting,  // not registered: ATen's CPU kernel on the calling thread after a wait
  kCount,
};
// What `get_fallback_ops` says about the route; nullptr for routes that are no fallback.
const char* fallback_reason(Route route);

void count_executed(const char* name, Route route) noexcept;

struct OpCount {
  std::string name;
  int64_t calls[static_cast<int>(Route::kCount)];
};
std::vector<OpCount> executed_ops();
void clear_op_tracking();

}  // namespace neuron::glue
