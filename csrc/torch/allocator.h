// SPDX-License-Identifier: Apache-2.0
//
// Device memory as PyTorch sees it: c10::DataPtr around the blocks of the memory pools, and the
// c10::DeviceAllocator registered for the `neuron` device.
//
// Ownership. The context of every DataPtr made here is the Block, its deleter is `delete_block`; the
// DataPtr owns the storage's reference. Zero bytes are an allocation like any other.
// Allocation follows the order of the stream given: the memory may still be written by earlier
// operations of that stream, and by nobody else.
//
//   c10::DataPtr data = allocate_data(bytes, device, current_stream(device));
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <functional>

#include "neuron/runtime/block.h"
#include "neuron/runtime/stream.h"

namespace neuron::glue {

// Throws torch.OutOfMemoryError, after the pool has tried everything to find memory.
c10::DataPtr allocate_data(size_t bytes, c10::DeviceIndex device, Stream& stream);

// Wraps memory that somebody else owns. `release` is called once, on any thread, when the stream has
// passed the last use; it must not wait. Throws torch.OutOfMemoryError without calling `release`.
c10::DataPtr adopt_data(void* ptr, size_t bytes, c10::DeviceIndex device, Stream& stream,
                        std::function<void()> release);

// The DataPtr of a storage that has given its memory back (resized to zero): no block.
c10::DataPtr no_data(c10::DeviceIndex device);

// The deleter of every DataPtr on `neuron`. Never waits, never takes the GIL, never throws, and does
// nothing in a forked child.
void delete_block(void* block);

// The block behind a DataPtr made here, nullptr for any other and for `no_data`.
inline Block* block_of(const c10::DataPtr& data) {
  return data.get_deleter() == &delete_block ? static_cast<Block*>(data.get_context()) : nullptr;
}

// The device whose memory holds `address`, or -1.
c10::DeviceIndex device_of_address(const void* address);

// Queues a copy of `bytes` bytes between the starts of two blocks.
void queue_block_copy(Block& to, Block& from, size_t bytes, Stream& stream);

// The allocator registered for c10::DeviceType::PrivateUse1.
c10::DeviceAllocator& device_allocator();

}  // namespace neuron::glue
