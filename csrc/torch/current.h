// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's current device and current streams. A thread starts on device 0 and on the
// default streams; both are thread-local, so no lock.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "neuron/runtime/runtime.h"

namespace neuron::glue {

inline constexpr c10::DeviceType kNeuron = c10::DeviceType::PrivateUse1;

c10::DeviceIndex current_device() noexcept;
// Throws for an index out of range.
void set_current_device(c10::DeviceIndex index);
void set_current_device_unchecked(c10::DeviceIndex index) noexcept;

Stream& current_stream(c10::DeviceIndex index);
void set_current_stream(Stream& stream);

// Between the core's streams and c10's value type (the id is Stream::id()).
c10::Stream to_c10(const Stream& stream);
Stream& from_c10(const c10::Stream& stream);

}  // namespace neuron::glue
