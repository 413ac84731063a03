// SPDX-License-Identifier: Apache-2.0
//
// Aliases: CPU tensors over the bytes of `neuron` tensors, on which host kernels compute. An alias
// does not own the bytes; the record that carries it keeps the block alive. Its storage cannot be
// resized, so a kernel that tries raises instead of detaching the alias from the device tensor.
#pragma once

#include <ATen/core/Tensor.h>

namespace neuron::glue {

// The CPU alias of a `neuron` tensor: same bytes, geometry, dtype, conj/neg bits. CPU tensors
// (scalars that PyTorch lets into mixed expressions) pass through: wrapped numbers as they are,
// others as a private copy. Undefined tensors pass through.
at::Tensor alias(const at::Tensor& tensor);

// As `alias`, with a storage of its own that a kernel may resize (out= arguments).
at::Tensor resizable_alias(const at::Tensor& tensor);

// `tensor` cut to [start, start + length) along `dim`, without a dispatcher call.
at::Tensor slice(const at::Tensor& tensor, int64_t dim, int64_t start, int64_t length);

// Sets up the calling thread for host kernels while it lives: single-threaded libraries, no autograd.
class HostScope {
 public:
  HostScope();
  ~HostScope();
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;

 private:
  c10::impl::ExcludeDispatchKeyGuard below_autograd_;
  int threads_;      // of OpenMP on this thread, to restore
  int mkl_threads_;  // likewise
};

}  // namespace neuron::glue
