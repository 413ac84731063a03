// SPDX-License-Identifier: Apache-2.0
//
// Making `neuron` tensors: storage from the memory pool of the device, or around foreign memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>

#include <functional>

#include "neuron/runtime/block.h"

namespace neuron::glue {

// An uninitialised tensor in pool memory of `device`, reused in the order of the current stream.
// Throws torch.OutOfMemoryError. Honours deterministic fill (torch.utils.deterministic).
at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype,
                         c10::Device device);
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device,
                 std::optional<at::MemoryFormat> format = std::nullopt);

// A `neuron` tensor over the bytes of `cpu`, whose storage it keeps alive until the timeline has
// passed its last use. Sizes, strides and offset are those of `cpu`.
at::Tensor adopt(const at::Tensor& cpu, c10::Device device);

// The block behind a `neuron` tensor's storage; nullptr for a storage without memory.
Block* block_of(const at::Tensor& tensor);
Block* block_of_storage(c10::StorageImpl& storage);

// Moves `storage` to new pool memory of `bytes` bytes, keeping what fits of its contents, in the order
// of the current stream. Tensors over the storage see the new memory.
void resize_storage(const c10::Storage& storage, size_t bytes);

// `device` with an index: the current one if it has none. Throws for an index out of range.
c10::Device resolve(c10::Device device);

}  // namespace neuron::glue
