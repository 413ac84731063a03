// SPDX-License-Identifier: Apache-2.0
#include "torch/allocator.h"

#include <cstring>
#include <memory>
#include <utility>

#include "neuron/base/process.h"
#include "torch/current.h"
#include "torch/errors.h"

namespace neuron::glue {
namespace {

class CopyBytes final : public HostCall {
 public:
  CopyBytes(void* to, const void* from, size_t bytes) : to_(to), from_(from), bytes_(bytes) {}
  void run() override { std::memmove(to_, from_, bytes_); }
  const char* name() const override { return "neuron::copy_bytes"; }

 private:
  void* const to_;
  const void* const from_;
  const size_t bytes_;
};

// Queues a copy between two addresses that lie in these blocks.
void queue_copy(Block& to_block, void* to, Block& from_block, const void* from, size_t bytes,
                Stream& stream) {
  const TensorRef output{.block = &to_block};
  const TensorRef input{.block = &from_block};
  RecordRequest request;
  request.inputs = {&input, 1};
  request.outputs = {&output, 1};
  request.host = std::make_unique<CopyBytes>(to, from, bytes);
  for (Block* block : {&to_block, &from_block}) {
    if (block->stream() != &stream) block->pool()->record_stream(block, &stream);
  }
  stream.record(std::move(request));
}

// A block that `MemoryPool::find` retained.
struct Found {
  Block* block = nullptr;
  Found() = default;
  Found(const Found&) = delete;
  Found& operator=(const Found&) = delete;
  ~Found() {
    if (block != nullptr) block->release();
  }
};

// Looks in every device; the devices exist when any memory does.
void find(const void* address, Found& found) {
  if (!Runtime::initialized()) return;
  Runtime& runtime = Runtime::instance();
  for (int i = 0; i < runtime.device_count() && found.block == nullptr; ++i) {
    found.block = runtime.device(i).pool().find(address);
  }
}

c10::Device device_at(c10::DeviceIndex index) { return c10::Device(kNeuron, index); }

c10::DeviceIndex index_of(const Block& block) {
  return static_cast<c10::DeviceIndex>(block.stream()->device().index());
}

void report_to_profiler(const Block& block, bool allocated) {
  if (!c10::memoryProfilingEnabled()) [[likely]] return;
  const MemoryStats stats = block.pool()->stats();
  const auto bytes = static_cast<int64_t>(block.bytes());
  c10::reportMemoryUsageToProfiler(block.address(), allocated ? bytes : -bytes,
                                   static_cast<size_t>(stats.allocated_bytes[0].current),
                                   static_cast<size_t>(stats.reserved_bytes[0].current),
                                   device_at(index_of(block)));
}

c10::DataPtr own(Block* block, c10::DeviceIndex device) {
  c10::DataPtr data(block->address(), block, &delete_block, device_at(device));
  report_to_profiler(*block, true);
  return data;
}

c10::CachingAllocator::StatArray to_c10(const MemoryStat (&stats)[3]) {
  c10::CachingAllocator::StatArray result;
  for (size_t i = 0; i < result.size(); ++i) {
    result[i].current = stats[i].current;
    result[i].peak = stats[i].peak;
    result[i].allocated = stats[i].allocated;
    result[i].freed = stats[i].freed;
  }
  return result;
}

class NeuronAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::DeviceIndex device = current_device();
    return allocate_data(bytes, device, current_stream(device));
  }

  // The raw interface needs contexts that equal the address; ours are blocks.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    if (bytes == 0) return;
    guarded([&] {
      Found target, source;
      find(to, target);
      find(from, source);
      TORCH_CHECK(target.block != nullptr && source.block != nullptr,
                  "copy_data: both addresses must belong to neuron memory");
      queue_copy(*target.block, to, *source.block, from, bytes,
                 current_stream(index_of(*target.block)));
    });
  }

  bool initialized() override { return Runtime::initialized(); }

  void emptyCache(c10::MempoolId_t) override {
    if (!Runtime::initialized()) return;
    guarded([] {
      Runtime& runtime = Runtime::instance();
      for (int i = 0; i < runtime.device_count(); ++i) {
        runtime.device(i).drain(SealReason::kMemory);
        runtime.device(i).pool().empty_cache();
      }
    });
  }

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    Block* block = block_of(data);
    if (block != nullptr) block->pool()->record_stream(block, &from_c10(stream));
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const MemoryStats s = pool(device).stats();
    c10::CachingDeviceAllocator::DeviceStats result;
    result.allocation = to_c10(s.allocation);
    result.segment = to_c10(s.segment);
    result.active = to_c10(s.active);
    result.inactive_split = to_c10(s.inactive_split);
    result.allocated_bytes = to_c10(s.allocated_bytes);
    result.reserved_bytes = to_c10(s.reserved_bytes);
    result.active_bytes = to_c10(s.active_bytes);
    result.inactive_split_bytes = to_c10(s.inactive_split_bytes);
    result.requested_bytes = to_c10(s.requested_bytes);
    result.num_alloc_retries = s.num_alloc_retries;
    result.num_ooms = s.num_ooms;
    result.num_sync_all_streams = s.num_sync_all_streams;
    result.num_device_alloc = s.num_device_alloc;
    result.num_device_free = s.num_device_free;
    return result;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    pool(device).reset_accumulated_stats();
  }
  void resetPeakStats(c10::DeviceIndex device) override { pool(device).reset_peak_stats(); }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    MemoryPool& p = pool(device);
    p.reclaim();
    return {p.free_capacity(), p.capacity()};
  }

 private:
  static MemoryPool& pool(c10::DeviceIndex device) {
    return guarded([&]() -> MemoryPool& { return Runtime::instance().device(device).pool(); });
  }
};

NeuronAllocator allocator;

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &allocator)

}  // namespace

c10::DataPtr allocate_data(size_t bytes, c10::DeviceIndex device, Stream& stream) {
  return guarded([&] {
    check_not_forked();
    return own(Runtime::instance().device(device).pool().allocate(bytes, &stream), device);
  });
}

c10::DataPtr adopt_data(void* ptr, size_t bytes, c10::DeviceIndex device, Stream& stream,
                        std::function<void()> release) {
  return guarded([&] {
    check_not_forked();
    MemoryPool& pool = Runtime::instance().device(device).pool();
    return own(pool.adopt(ptr, bytes, &stream, std::move(release)), device);
  });
}

void delete_block(void* context) {
  if (context == nullptr || in_forked_child()) return;
  auto* block = static_cast<Block*>(context);
  report_to_profiler(*block, false);
  block->pool()->free(block);
}

c10::DeviceIndex device_of_address(const void* address) {
  return guarded([&] {
    Found found;
    find(address, found);
    return found.block != nullptr ? index_of(*found.block) : c10::DeviceIndex{-1};
  });
}

void queue_block_copy(Block& to, Block& from, size_t bytes, Stream& stream) {
  guarded([&] { queue_copy(to, to.address(), from, from.address(), bytes, stream); });
}

c10::DataPtr no_data(c10::DeviceIndex device) {
  return c10::DataPtr(nullptr, nullptr, &delete_block, device_at(device));
}

c10::DeviceAllocator& device_allocator() { return allocator; }

}  // namespace neuron::glue
