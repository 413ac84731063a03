// SPDX-License-Identifier: Apache-2.0
#include "torch/alias.h"

#include <ATen/Parallel.h>
#include <ATen/ops/clone.h>
#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>

#include "neuron/runtime/block.h"
#include "torch/current.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

c10::intrusive_ptr<c10::StorageImpl> alias_storage(Block& block) {
  void* attached = block.attachment();
  if (attached == nullptr) {
    auto storage = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), block.bytes(),
        c10::DataPtr(block.address(), c10::Device(c10::kCPU)), /*allocator=*/nullptr,
        /*resizable=*/false);
    attached = block.attach(storage.release());
  }
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
      static_cast<c10::StorageImpl*>(attached));
}

// A view's constructor: it allocates no version counter, which nothing below autograd looks at.
at::Tensor make_view(c10::Storage storage, caffe2::TypeMeta dtype) {
  return at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
}

at::Tensor make_alias(c10::intrusive_ptr<c10::StorageImpl> storage, const at::Tensor& tensor) {
  at::Tensor result = make_view(c10::Storage(std::move(storage)), tensor.dtype());
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  impl->set_storage_offset(tensor.storage_offset());
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  const c10::TensorImpl* source = tensor.unsafeGetTensorImpl();
  if (source->is_wrapped_number()) [[unlikely]] impl->set_wrapped_number(true);
  if (tensor.is_conj()) [[unlikely]] impl->_set_conj(true);
  if (tensor.is_neg()) [[unlikely]] impl->_set_neg(true);
  return result;
}

at::Tensor pass_through(const at::Tensor& tensor) {
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
  c10::impl::ExcludeDispatchKeyGuard guard(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  return tensor.clone();
}

const bool attachments_ready = [] {
  Block::destroy_attachment = [](void* pointer) {
    c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(pointer));
  };
  return true;
}();

using GetThreads = int (*)();
using SetThreads = void (*)(int);
using SetLocalThreads = int (*)(int);

// torch's own OpenMP and MKL; the per-thread setters leave every other thread alone.
struct Libraries {
  GetThreads omp_get = reinterpret_cast<GetThreads>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  SetThreads omp_set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  SetLocalThreads mkl_set =
      reinterpret_cast<SetLocalThreads>(dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local"));
};

const Libraries& libraries() {
  static const Libraries instance;
  return instance;
}

}  // namespace

at::Tensor alias(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (tensor.device().type() != kNeuron) return pass_through(tensor);
  Block* block = block_of(tensor);
  TORCH_CHECK(block != nullptr, "the tensor's storage has no memory");
  return make_alias(alias_storage(*block), tensor);
}

at::Tensor resizable_alias(const at::Tensor& tensor) {
  Block* block = block_of(tensor);
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), tensor.storage().nbytes(),
      c10::DataPtr(block != nullptr ? block->address() : nullptr, c10::Device(c10::kCPU)),
      c10::GetCPUAllocator(), /*resizable=*/true);
  return make_alias(std::move(storage), tensor);
}

at::Tensor slice(const at::Tensor& tensor, int64_t dim, int64_t start, int64_t length) {
  at::Tensor result = make_view(c10::Storage(tensor.storage()), tensor.dtype());
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  c10::SmallVector<int64_t, 8> sizes(tensor.sizes().begin(), tensor.sizes().end());
  sizes[static_cast<size_t>(dim)] = length;
  impl->set_storage_offset(tensor.storage_offset() + start * tensor.stride(dim));
  impl->set_sizes_and_strides(sizes, tensor.strides());
  if (tensor.is_conj()) [[unlikely]] impl->_set_conj(true);
  if (tensor.is_neg()) [[unlikely]] impl->_set_neg(true);
  return result;
}

HostScope::HostScope()
    : below_autograd_(c10::autograd_dispatch_keyset_with_ADInplaceOrView),
      threads_(1),
      mkl_threads_(-1) {
  const Libraries& l = libraries();
  at::internal::lazy_init_num_threads();
  if (l.omp_get != nullptr && l.omp_get() != 1) {
    threads_ = l.omp_get();
    l.omp_set(1);
  }
  if (threads_ != 1 && l.mkl_set != nullptr) mkl_threads_ = l.mkl_set(1);
}

HostScope::~HostScope() {
  const Libraries& l = libraries();
  if (threads_ != 1) l.omp_set(threads_);
  if (mkl_threads_ >= 0) l.mkl_set(mkl_threads_);
}

}  // namespace neuron::glue
