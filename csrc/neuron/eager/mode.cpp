// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/mode.h"

#include <atomic>

#include "neuron/base/config.h"
#include "neuron/base/error.h"

namespace neuron {
namespace {

EagerMode configured() {
  const std::string& text = config().eager_mode;
  if (text == "adaptive") return EagerMode::kAdaptive;
  if (text == "strict") return EagerMode::kStrict;
  throw Error(ErrorCode::kInvalidArgument,
              "TORCH_NEURONX_EAGER_MODE is 'adaptive' or 'strict', not '" + text + "'");
}

std::atomic<EagerMode>& mode() {
  static std::atomic<EagerMode> value{configured()};
  return value;
}

}  // namespace

EagerMode eager_mode() { return mode().load(std::memory_order_relaxed); }
void set_eager_mode(EagerMode value) { mode().store(value, std::memory_order_relaxed); }

}  // namespace neuron
