// SPDX-License-Identifier: Apache-2.0
#include "torch/tensor.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/TensorFactories.h>
#include <c10/core/TensorImpl.h>

#include "torch/alias.h"
#include "torch/allocator.h"
#include "torch/current.h"
#include "torch/errors.h"

namespace neuron::glue {
namespace {

c10::Storage make_storage(c10::DataPtr data, size_t bytes) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, std::move(data),
      c10::GetAllocator(kNeuron), /*resizable=*/true));
}

at::Tensor make_tensor(c10::Storage storage, caffe2::TypeMeta dtype) {
  return at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
}

bool fills_uninitialized() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

at::Tensor allocate(size_t bytes, at::ScalarType dtype, c10::Device device) {
  Stream& stream = current_stream(device.index());
  return make_tensor(make_storage(allocate_data(bytes, device.index(), stream), bytes),
                     c10::scalarTypeToTypeMeta(dtype));
}

// Storage whose memory came from elsewhere (at::from_blob, DLPack): gives it a block that takes over
// the old owner and releases it when the timeline has passed.
Block* adopt_storage(c10::StorageImpl& storage) {
  const c10::DeviceIndex device = storage.device().index();
  auto owner = std::make_shared<c10::DataPtr>(storage.set_data_ptr(c10::DataPtr()));
  void* address = owner->get();
  storage.set_data_ptr_noswap(adopt_data(address, storage.nbytes(), device, current_stream(device),
                                         [owner]() mutable { owner.reset(); }));
  return static_cast<Block*>(storage.data_ptr().get_context());
}

}  // namespace

c10::Device resolve(c10::Device device) {
  TORCH_CHECK(device.type() == kNeuron, "expected a neuron device, got ", device);
  if (!device.has_index()) return c10::Device(kNeuron, current_device());
  const int count = Runtime::instance().device_count();
  TORCH_CHECK(device.index() < count, "Device index ", static_cast<int>(device.index()),
              " is out of range: neuron has ", count, " virtual NeuronCores");
  return device;
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype,
                         c10::Device device) {
  at::detail::check_size_nonnegative(sizes);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  at::Tensor tensor = allocate(bytes, dtype, resolve(device));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  if (fills_uninitialized()) [[unlikely]] at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device,
                 std::optional<at::MemoryFormat> format) {
  at::detail::check_size_nonnegative(sizes);
  const size_t bytes = at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(dtype));
  at::Tensor tensor = allocate(bytes, dtype, resolve(device));
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (sizes.size() != 1 || sizes[0] != 0) impl->set_sizes_contiguous(sizes);
  if (format.has_value() && *format != at::MemoryFormat::Contiguous) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve,
                "memory_format option is only supported by strided tensors with a source");
    impl->empty_tensor_restride(*format);
  }
  if (fills_uninitialized()) [[unlikely]] at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

at::Tensor adopt(const at::Tensor& cpu, c10::Device device) {
  const c10::Storage& storage = cpu.storage();
  const size_t bytes = storage.nbytes();
  // Storages without memory (empty results) get a block of their own.
  at::Tensor tensor;
  if (bytes == 0 || storage.data() == nullptr) {
    tensor = allocate(0, cpu.scalar_type(), device);
  } else {
    c10::DataPtr data =
        guarded([&] {
          return adopt_data(const_cast<void*>(storage.data()), bytes, device.index(),
                            current_stream(device.index()), [owner = c10::Storage(storage)]() mutable {
                            owner = c10::Storage();
                          });
        });
    tensor = make_tensor(make_storage(std::move(data), bytes), cpu.dtype());
  }
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_offset(cpu.storage_offset());
  impl->set_sizes_and_strides(cpu.sizes(), cpu.strides());
  if (cpu.is_conj()) tensor._set_conj(true);
  if (cpu.is_neg()) tensor._set_neg(true);
  return tensor;
}

Block* block_of_storage(c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() == &delete_block) [[likely]] {
    return static_cast<Block*>(data.get_context());
  }
  if (data.get() == nullptr) return nullptr;
  return guarded([&] { return adopt_storage(storage); });
}

Block* block_of(const at::Tensor& tensor) {
  return block_of_storage(*tensor.storage().unsafeGetStorageImpl());
}

}  // namespace neuron::glue
