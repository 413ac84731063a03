// SPDX-License-Identifier: Apache-2.0
//
// The device guard: c10's view of devices, streams and events, over the core's runtime. Stateless;
// the registry keeps the one object for ever, so guards may run while the process ends.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "neuron/runtime/event.h"
#include "torch/allocator.h"
#include "torch/current.h"
#include "torch/errors.h"
#include "torch/hooks.h"

namespace neuron::glue {
namespace {

c10::DeviceIndex index_of(c10::Device device) {
  TORCH_CHECK(device.type() == kNeuron, "expected a neuron device, got ", device);
  return device.has_index() ? device.index() : current_device();
}

Device& core_device(c10::Device device) {
  return guarded([&]() -> Device& { return Runtime::instance().device(index_of(device)); });
}

EventState* to_event(void* event) { return static_cast<EventState*>(event); }

// What the host target computes: everything but quantised and sub-byte types, which have no host
// kernels that a device tensor could reach.
uint64_t supported_types() {
  uint64_t bits = 0;
  for (c10::ScalarType type :
       {c10::kByte, c10::kChar, c10::kShort, c10::kInt, c10::kLong, c10::kHalf, c10::kFloat,
        c10::kDouble, c10::kComplexHalf, c10::kComplexFloat, c10::kComplexDouble, c10::kBool,
        c10::kBFloat16, c10::kFloat8_e5m2, c10::kFloat8_e4m3fn, c10::kFloat8_e5m2fnuz,
        c10::kFloat8_e4m3fnuz, c10::kUInt16, c10::kUInt32, c10::kUInt64, c10::kFloat8_e8m0fnu}) {
    bits |= uint64_t{1} << static_cast<int>(type);
  }
  return bits;
}

struct NeuronGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kNeuron; }

  // ---- devices

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    setDevice(device);
    return previous;
  }
  c10::Device getDevice() const override { return {kNeuron, current_device()}; }
  void setDevice(c10::Device device) const override {
    const c10::DeviceIndex index = index_of(device);
    if (index != current_device()) set_current_device(index);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    set_current_device_unchecked(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = supported_types();
    return capability;
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    guarded([&] { core_device({kNeuron, index}).synchronize(); });
  }

  // ---- streams

  c10::Stream getStream(c10::Device device) const override {
    return to_c10(current_stream(index_of(device)));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return to_c10(core_device(device).default_stream());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? Stream::kHighPriority : Stream::kLowPriority);
  }
  // From the pool too: c10 never gives streams back, so streams of their own would pile up.
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return guarded([&] { return to_c10(core_device(device).pool_stream(priority)); });
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    Stream& next = from_c10(stream);
    const c10::Stream previous = to_c10(current_stream(stream.device_index()));
    set_current_stream(next);
    return previous;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return &from_c10(stream); }
  bool queryStream(const c10::Stream& stream) const override { return from_c10(stream).query(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    guarded([&] { from_c10(stream).synchronize(); });
  }

  // ---- events

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "Event device index ",
                static_cast<int>(index), " does not match the recording stream's device index ",
                static_cast<int>(stream.device_index()), ".");
    if (*event == nullptr) *event = new EventState(flag == c10::EventFlag::BACKEND_DEFAULT);
    guarded([&] { from_c10(stream).record_event(*to_event(*event)); });
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    guarded([&] { from_c10(stream).wait_event(*to_event(event)); });
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const EventState::Point point = to_event(event)->point();
    if (point.stream == nullptr || point.stream->completed() >= point.value) return true;
    point.stream->query();
    return point.stream->completed() >= point.value;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    const EventState::Point point = to_event(event)->point();
    if (point.stream == nullptr) return;
    guarded([&] { point.stream->wait(point.value, SealReason::kSynchronize); });
  }
  double elapsedTime(void* begin, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(begin != nullptr && end != nullptr,
                "Both events must be recorded before calculating elapsed time.");
    for (void* event : {begin, end}) {
      TORCH_CHECK(to_event(event)->timing(),
                  "Both events must be created with argument 'enable_timing=True'.");
      TORCH_CHECK(queryEvent(event),
                  "Both events must be completed before calculating elapsed time.");
    }
    return static_cast<double>(to_event(end)->time_ns() - to_event(begin)->time_ns()) * 1e-6;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event != nullptr) to_event(event)->release();
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    device_allocator().recordStream(data, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, NeuronGuard)

}  // namespace
}  // namespace neuron::glue
