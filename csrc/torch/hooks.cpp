// SPDX-License-Identifier: Apache-2.0
#include "torch/hooks.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <algorithm>
#include <utility>

#include "neuron/base/process.h"
#include "torch/allocator.h"
#include "torch/current.h"
#include "torch/errors.h"
#include "torch/generator.h"
#include "torch/pinned_memory.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

struct NeuronHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  void init() const override {
    guarded([] {
      check_not_forked();
      Runtime::instance().device(current_device());
    });
  }
  // The virtual cores share one context, the process's runtime.
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return index >= 0 && index < device_count() && Runtime::initialized();
  }

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex previous = current_device();
    if (index >= 0 && index != previous) set_current_device(index);
    return previous;
  }
  // Restores a device without creating it.
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex previous = current_device();
    if (index >= 0 && index < device_count()) set_current_device_unchecked(index);
    return previous;
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return new_generator(index);
  }

  c10::Device getDeviceFromPtr(void* address) const override {
    const c10::DeviceIndex index = device_of_address(address);
    TORCH_CHECK(index >= 0, "The specified pointer does not belong to neuron memory.");
    return {kNeuron, index};
  }

  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl.resizable(), "Trying to resize storage that is not resizable");
    const c10::DeviceIndex device = impl.device().index();
    Stream& stream = current_stream(device);
    Block* from = block_of_storage(impl);
    c10::DataPtr data = bytes > 0 ? allocate_data(bytes, device, stream) : no_data(device);
    Block* to = block_of(data);
    const size_t kept = std::min(impl.nbytes(), bytes);
    if (from != nullptr && to != nullptr && kept > 0) queue_block_copy(*to, *from, kept, stream);
    impl.set_data_ptr_noswap(std::move(data));
    impl.set_nbytes(bytes);
  }
};

}  // namespace

c10::DeviceIndex device_count() noexcept {
  try {
    return static_cast<c10::DeviceIndex>(Runtime::instance().device_count());
  } catch (...) {
    return 0;
  }
}

void register_hooks() {
  // Leaks on purpose: PyTorch keeps the pointer for ever.
  at::RegisterPrivateUse1HooksInterface(new NeuronHooks);
}

}  // namespace neuron::glue
