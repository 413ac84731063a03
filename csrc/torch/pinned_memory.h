// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory: page-aligned CPU memory that queued copies may read or write later. The
// allocator caches blocks in PyTorch's own host-memory cache and gives a freed block out again only
// when the streams that were told of (`hold_pinned`) have passed the point of the free.
//
// Pages are locked where the process may lock them; a refusal is counted ("Pinned.LockFailures") and
// changes nothing else. All functions are thread-safe.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "neuron/runtime/stream.h"

namespace neuron::glue {

at::HostAllocator& pinned_allocator();

// True if the address lies in memory of this allocator.
bool is_pinned(const void* address) noexcept;

// A record of `stream` uses the memory around `address`: once freed, it stays unused until the
// stream has passed. Returns false, and does nothing, for memory that is not pinned.
bool hold_pinned(const void* address, Stream& stream);

}  // namespace neuron::glue
