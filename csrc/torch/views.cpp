// SPDX-License-Identifier: Apache-2.0
//
// Factories, views and storage changes: the operators that only touch metadata or memory. Views are
// true aliases; none of them queues work.
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include "neuron/runtime/memory_pool.h"
#include "torch/current.h"
#include "torch/errors.h"
#include "torch/op_call.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

c10::Device device_or_current(std::optional<c10::Device> device) {
  return device.has_value() ? resolve(*device) : c10::Device(kNeuron, current_device());
}

void check_plain(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(c10::layout_or_default(layout) == c10::kStrided,
              "neuron supports strided tensors only, got layout ", c10::layout_or_default(layout));
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory),
              "Only dense CPU tensors can be pinned, not tensors on neuron");
}

at::Tensor empty_memory_format(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> dtype,
                               std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> format) {
  check_plain(layout, pin_memory);
  return empty(C10_AS_INTARRAYREF_SLOW(sizes), c10::dtype_or_default(dtype),
               device_or_current(device), format);
}

at::Tensor empty_strided_op(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                            std::optional<at::ScalarType> dtype, std::optional<c10::Layout> layout,
                            std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_plain(layout, pin_memory);
  return empty_strided(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                       c10::dtype_or_default(dtype), device_or_current(device));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef sizes,
                      c10::SymIntArrayRef strides, std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
      offset.has_value() ? std::make_optional(offset->expect_int()) : std::nullopt);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef sizes) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(sizes));
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef sizes,
                         c10::SymIntArrayRef strides) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(sizes),
                                    C10_AS_INTARRAYREF_SLOW(strides));
}

// Grows the storage if `impl`'s geometry reaches beyond it.
void fit_storage(c10::TensorImpl& impl) {
  const size_t needed = at::detail::computeStorageNbytes(
      impl.sizes(), impl.strides(), impl.dtype().itemsize(),
      static_cast<size_t>(impl.storage_offset()));
  if (impl.numel() > 0 && needed > impl.storage().nbytes()) resize_storage(impl.storage(), needed);
}

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef symbolic_sizes,
                          std::optional<at::MemoryFormat> format) {
  const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(symbolic_sizes);
  at::detail::check_size_nonnegative(sizes);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const size_t old_bytes = impl->storage().nbytes();
  if (self.sizes() != sizes) {
    impl->set_sizes_contiguous(sizes);
    fit_storage(*impl);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl->empty_tensor_restride(*format);
    fit_storage(*impl);
  }
  if (at::globalContext().deterministicAlgorithms() &&
      at::globalContext().deterministicFillUninitializedMemory()) [[unlikely]] {
    at::native::fill_resize_deterministic_(self, static_cast<int64_t>(old_bytes));
  }
  return self;
}

at::Tensor& set_storage_offset_(at::Tensor& self, at::Storage source, c10::SymInt offset,
                                c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  const at::IntArrayRef s = C10_AS_INTARRAYREF_SLOW(sizes);
  const at::IntArrayRef st = C10_AS_INTARRAYREF_SLOW(strides);
  at::native::checkSetStorage(self, std::move(source), offset.expect_int(), s, st);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset.expect_int());
  if (strides.empty() && !sizes.empty()) {
    impl->set_sizes_contiguous(s);
  } else {
    impl->set_sizes_and_strides(s, st);
  }
  fit_storage(*impl);
  return self;
}

at::Tensor& set_storage_(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_offset_(self, std::move(source), 0, {c10::SymInt(elements)}, {});
}

at::Tensor& set_(at::Tensor& self) {
  const at::Tensor fresh = empty({0}, self.scalar_type(), self.device());
  return set_storage_offset_(self, fresh.storage(), 0, {c10::SymInt(0)}, {});
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided_op);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", set_storage_offset_);
  m.impl("set_.source_Storage", set_storage_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("set_", set_);
}

}  // namespace

void resize_storage(const c10::Storage& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  const c10::Device device = storage.device();
  const size_t kept = std::min(bytes, storage.nbytes());
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  if (bytes == storage.nbytes()) return;
  // Old and new contents as byte tensors, so that the move is an ordinary queued copy.
  const at::Tensor fresh = empty({static_cast<int64_t>(bytes)}, at::kByte, device);
  if (kept > 0) {
    at::Tensor old = empty({0}, at::kByte, device);
    old.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
    old.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<int64_t>(kept)});
    fresh.narrow(0, 0, static_cast<int64_t>(kept)).copy_(old);
  }
  impl->set_data_ptr_noswap(std::move(fresh.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks()));
  impl->set_nbytes(bytes);
}

}  // namespace neuron::glue
