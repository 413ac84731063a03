// SPDX-License-Identifier: Apache-2.0
#include "torch/pinned_memory.h"

#include <sys/mman.h>

#include <cstddef>
#include <map>
#include <mutex>

#include "neuron/base/process.h"
#include "neuron/trace/counters.h"
#include "torch/current.h"

namespace neuron::glue {
namespace {

// All memory mapped by the allocator, cached blocks included.
class Ranges {
 public:
  void add(const void* address, size_t bytes) {
    std::lock_guard lock(mutex_);
    ranges_.emplace(static_cast<const std::byte*>(address), bytes);
  }
  void remove(const void* address) {
    std::lock_guard lock(mutex_);
    ranges_.erase(static_cast<const std::byte*>(address));
  }
  // The start of the range that holds `address`, or nullptr.
  void* base(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    std::lock_guard lock(mutex_);
    auto it = ranges_.upper_bound(byte);
    if (it == ranges_.begin()) return nullptr;
    --it;
    return byte < it->first + it->second ? const_cast<std::byte*>(it->first) : nullptr;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, size_t> ranges_;  // guarded by mutex_
};

Ranges& ranges() {
  static auto* const instance = new Ranges;
  return *instance;
}

struct TimelinePoint {
  Stream* stream;
  uint64_t value;
};

using HostBlock = at::HostBlock<c10::Stream>;

struct PinnedCache final : at::CachingHostAllocatorImpl<c10::Stream, TimelinePoint> {
  void allocate_host_memory(size_t size, void** address) override {
    void* memory =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK_WITH(OutOfMemoryError, memory != MAP_FAILED, "cannot allocate ", size,
                     " bytes of pinned host memory");
    static Counter& lock_failures = counter("Pinned.LockFailures");
    if (mlock(memory, size) != 0) lock_failures.add();
    ranges().add(memory, size);
    *address = memory;
  }
  void free_block(HostBlock* block) override {
    ranges().remove(block->ptr_);
    munmap(block->ptr_, block->size_);
  }
  void record_stream(std::optional<std::vector<TimelinePoint>>& events,
                     c10::Stream stream) override {
    Stream& core = from_c10(stream);
    events->push_back({&core, core.submitted()});
  }
  bool query_event(TimelinePoint& point) override {
    return point.stream->completed() >= point.value;
  }
  c10::Stream get_current_stream() const override {
    return to_c10(current_stream(current_device()));
  }
  bool stream_is_capturing(c10::Stream) const override { return false; }
};

void free_pinned(void* context);

using PinnedAllocator = at::CachingHostAllocatorInterface<PinnedCache, &free_pinned>;

PinnedAllocator& instance() {
  // Leaks on purpose: pinned tensors may outlive static destructors.
  static auto* const allocator = new PinnedAllocator;
  return *allocator;
}

void free_pinned(void* context) {
  if (!in_forked_child()) instance().free(context);
}

REGISTER_HOST_ALLOCATOR(c10::DeviceType::PrivateUse1, &instance())

}  // namespace

at::HostAllocator& pinned_allocator() { return instance(); }

bool is_pinned(const void* address) noexcept { return ranges().base(address) != nullptr; }

bool hold_pinned(const void* address, Stream& stream) {
  void* base = ranges().base(address);
  return base != nullptr && instance().record_event(base, nullptr, to_c10(stream));
}

}  // namespace neuron::glue
