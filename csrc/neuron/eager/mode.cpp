// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/mode.h"

#include <atomic>
#include <string>

#include "neuron/base/config.h"
#include "neuron/base/error.h"

namespace neuron {
namespace {

std::atomic<EagerMode>& mode() {
  static std::atomic<EagerMode> value{parse_eager_mode(config().eager_mode)};
  return value;
}

}  // namespace

EagerMode eager_mode() { return mode().load(std::memory_order_relaxed); }
void set_eager_mode(EagerMode value) { mode().store(value, std::memory_order_relaxed); }

const char* name(EagerMode mode) {
  return mode == EagerMode::kStrict ? "strict" : "adaptive";
}

EagerMode parse_eager_mode(std::string_view text) {
  for (const EagerMode m : {EagerMode::kAdaptive, EagerMode::kStrict}) {
    if (text == name(m)) return m;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "the eager mode is 'adaptive' or 'strict', not '" + std::string(text) + "'");
}

}  // namespace neuron
