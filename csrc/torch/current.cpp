// SPDX-License-Identifier: Apache-2.0
#include "torch/current.h"

#include <vector>

#include "torch/errors.h"

namespace neuron::glue {
namespace {

thread_local c10::DeviceIndex device = 0;
thread_local std::vector<Stream*> streams;  // by device; nullptr: the default stream

}  // namespace

c10::DeviceIndex current_device() noexcept { return device; }

void set_current_device(c10::DeviceIndex index) {
  guarded([&] { Runtime::instance().device(index); });
  device = index;
}

void set_current_device_unchecked(c10::DeviceIndex index) noexcept { device = index; }

Stream& current_stream(c10::DeviceIndex index) {
  const auto i = static_cast<size_t>(index);
  if (i < streams.size() && streams[i] != nullptr) return *streams[i];
  return guarded([&]() -> Stream& { return Runtime::instance().device(index).default_stream(); });
}

void set_current_stream(Stream& stream) {
  const auto i = static_cast<size_t>(stream.device().index());
  if (i >= streams.size()) streams.resize(i + 1);
  streams[i] = &stream;
}

c10::Stream to_c10(const Stream& stream) {
  const auto index = static_cast<c10::DeviceIndex>(stream.device().index());
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, index), stream.id());
}

Stream& from_c10(const c10::Stream& stream) {
  return guarded([&]() -> Stream& {
    return Runtime::instance().device(stream.device_index()).stream(stream.id());
  });
}

}  // namespace neuron::glue
