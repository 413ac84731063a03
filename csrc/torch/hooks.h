// SPDX-License-Identifier: Apache-2.0
//
// The backend's hooks for generic code of PyTorch (at::PrivateUse1HooksInterface).
#pragma once

#include <c10/core/Device.h>

namespace neuron::glue {

// Devices of this process; 0 if the runtime could not start. Creates nothing.
c10::DeviceIndex device_count() noexcept;

// Registers the hooks; once per process, called by the module's initialisation.
void register_hooks();

}  // namespace neuron::glue
