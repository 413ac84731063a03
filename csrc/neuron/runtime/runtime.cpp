// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/runtime.h"

#include <string>

#include "neuron/base/process.h"

namespace neuron {
namespace {

std::atomic<bool> any_device{false};
std::atomic<Runtime*> the_runtime{nullptr};

}  // namespace

Runtime& Runtime::instance() {
  Runtime* runtime = the_runtime.load(std::memory_order_acquire);
  NEURON_CHECK(runtime != nullptr);
  return *runtime;
}

void Runtime::start(std::unique_ptr<Target> target) {
  auto* runtime = new Runtime(std::move(target));
  Runtime* expected = nullptr;
  if (!the_runtime.compare_exchange_strong(expected, runtime, std::memory_order_acq_rel)) {
    delete runtime;
    throw Error(ErrorCode::kInvalidArgument, "the neuron runtime has been started already");
  }
}

bool Runtime::initialized() noexcept { return any_device.load(std::memory_order_acquire); }

Runtime::Runtime(std::unique_ptr<Target> target)
    : target_(std::move(target)),
      device_count_(target_->device_count()),
      devices_(static_cast<size_t>(device_count_)) {}

Device& Runtime::device(int index) {
  if (index < 0 || index >= device_count_) {
    throw Error(ErrorCode::kInvalidArgument,
                "Device index " + std::to_string(index) + " is out of range: neuron has " +
                    std::to_string(device_count_) + " virtual NeuronCores");
  }
  auto& slot = devices_[static_cast<size_t>(index)];
  if (Device* device = slot.load(std::memory_order_acquire)) [[likely]] return *device;
  check_not_forked();
  watch_for_fork();
  std::lock_guard lock(mutex_);
  if (Device* device = slot.load(std::memory_order_acquire)) return *device;
  owned_.push_back(std::make_unique<Device>(*target_, index));
  slot.store(owned_.back().get(), std::memory_order_release);
  any_device.store(true, std::memory_order_release);
  return *owned_.back();
}

void Runtime::synchronize() {
  for (auto& slot : devices_) {
    if (Device* device = slot.load(std::memory_order_acquire)) device->synchronize();
  }
}

void Runtime::drain(SealReason reason) noexcept {
  for (auto& slot : devices_) {
    if (Device* device = slot.load(std::memory_order_acquire)) device->drain(reason);
  }
}

void Runtime::shutdown() noexcept {
  if (in_forked_child()) return;
  for (auto& slot : devices_) {
    if (Device* device = slot.load(std::memory_order_acquire)) device->stop();
  }
}

}  // namespace neuron
