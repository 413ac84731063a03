// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/window_end.h"

#include <string_view>

#include "neuron/trace/counters.h"

namespace neuron::window_end {

void count(const char* reason) {
  struct Known {
    std::string_view reason;
    Counter& counter;
  };
  static const Known known[] = {
      {kCut, counter("Window.Cut")},
      {kHostOp, counter("Window.HostOp")},
      {kStrict, counter("Window.Strict")},
      {kPredicted, counter("Window.Predicted")},
      {kSingle, counter("Window.Single")},
      {kSize, counter("Window.Size")},
      {kHostStalled, counter("Window.HostStalled")},
      {kStreamOp, counter("Window.StreamOp")},
      {"HostRead", counter("Window.HostRead")},
      {"Synchronize", counter("Window.Synchronize")},
      {"BackPressure", counter("Window.BackPressure")},
      {"Memory", counter("Window.Memory")},
      {"Blocking", counter("Window.Blocking")},
      {"Query", counter("Window.Query")},
      {"DeviceIdle", counter("Window.DeviceIdle")},
  };
  const std::string_view why = reason;
  for (const Known& k : known) {
    if (k.reason == why) return k.counter.add();
  }
  static Counter& other = counter("Window.Other");
  other.add();
}

}  // namespace neuron::window_end
