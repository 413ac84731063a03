// SPDX-License-Identifier: Apache-2.0
//
// The targets that the conformance suite runs against. A new target adds a line.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "neuron/target/host_target.h"
#include "neuron/target/target.h"

namespace neuron::testing {

struct TargetCase {
  std::string name;
  std::function<std::unique_ptr<Target>()> make;
};

inline std::vector<TargetCase> all_targets() {
  return {{"host", [] {
             auto options = HostTarget::Options::from_config();
             options.virtual_hbm_gb = 0.25;
             return std::make_unique<HostTarget>(options);
           }}};
}

}  // namespace neuron::testing
