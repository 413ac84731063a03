// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/kernel_launch.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "neuron/base/error.h"
#include "neuron/host/thread_pool.h"

namespace neuron {
namespace {

constexpr int64_t kGrainElements = 32768;  // work of one chunk: some 10 us

// Grows and is reused by all launches of a thread. Never shrinks below the largest row or partial
// buffer, which is small against the tensors that needed it.
class Scratch {
 public:
  void* get(int64_t bytes) {
    if (bytes > capacity_) {
      memory_ = nullptr;
      // operator new with alignment throws std::bad_alloc: translated by the caller.
      memory_.reset(static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), kAlign)));
      capacity_ = bytes;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, kAlign); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  int64_t capacity_ = 0;
};

// Two, since a thread inside a two-phase launch also runs chunks that need a row buffer.
thread_local Scratch row_scratch;
thread_local Scratch shared_scratch;

void check_count(const char* what, size_t given, size_t expected) {
  if (given != expected)
    throw Error(ErrorCode::kInvalidArgument, std::string("kernel launch: ") +
                                                 std::to_string(given) + " " + what +
                                                 ", expected " + std::to_string(expected));
}

void run_phase(KernelEntry entry, const KernelArgs& args, int64_t items, int64_t cost,
               int64_t thread_scratch) {
  if (items <= 0) return;
  int64_t grain = std::max<int64_t>(1, kGrainElements / cost);
  if (cost == 1) grain = (grain + kLanes - 1) / kLanes * kLanes;
  auto work = [&](int64_t chunk) {
    KernelArgs mine = args;
    if (thread_scratch > 0) mine.scratch = row_scratch.get(thread_scratch);
    int64_t begin = chunk * grain;
    entry(&mine, begin, std::min(items, begin + grain));
  };
  int64_t chunks = (items + grain - 1) / grain;
  if (chunks == 1) return work(0);
  IntraOpPool::instance().run(chunks, work);
}

void check_status(uint32_t status) {
  if (status & kStatusIndexOutOfRange)
    throw Error(ErrorCode::kOutOfRange, "index out of range in self");
  if (status & kStatusDivisionByZero) throw Error(ErrorCode::kExecution, "ZeroDivisionError");
}

void run(const KernelObject& object, const WorkShape& work, KernelArgs args) {
  alignas(4) uint32_t status = 0;
  args.status = &status;
  int64_t thread_scratch = work.shared_scratch ? 0 : work.scratch_bytes;
  try {
    if (work.shared_scratch && work.scratch_bytes > 0)
      args.scratch = shared_scratch.get(work.scratch_bytes);
    for (int phase = 0; phase < work.phases; ++phase)
      run_phase(object.entry(phase), args, work.items[phase], work.cost[phase], thread_scratch);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory, "no host memory for a kernel's intermediate results (" +
                                             std::to_string(work.scratch_bytes) + " bytes)");
  }
  check_status(std::atomic_ref<uint32_t>(status).load(std::memory_order_relaxed));
}

}  // namespace

void launch(const KernelObject& object, const NestAnalysis& analysis,
            const KernelOperands& operands) {
  const LoopNest& nest = analysis.nest();
  size_t count = nest.operands.size();
  check_count("operands", operands.pointers.size(), count);
  check_count("extents", operands.extents.size(), static_cast<size_t>(nest.rank()));
  check_count("strides", operands.strides.size(), count * static_cast<size_t>(nest.rank()));
  check_count("scalars", operands.scalars.size(), nest.scalars.size());
  std::vector<int64_t> elements;
  const int64_t* index_strides = operands.index_strides.data();
  if (operands.index_strides.empty()) {
    elements.assign(count, 1);
    index_strides = elements.data();
  } else {
    check_count("index strides", operands.index_strides.size(), count);
  }
  run(object, analysis.work(operands.extents.data()),
      {.pointers = operands.pointers.data(),
       .extents = operands.extents.data(),
       .strides = operands.strides.data(),
       .index_strides = index_strides,
       .scalars = operands.scalars.data(),
       .scratch = nullptr,
       .chunks = nullptr,
       .status = nullptr});
}

void launch_horizontal(const KernelObject& object, const NestAnalysis& analysis,
                       const KernelOperands& operands) {
  const LoopNest& nest = analysis.nest();
  size_t items = operands.extents.size();
  if (items == 0) return;
  check_count("operands", operands.pointers.size(), items * nest.operands.size());
  check_count("scalars", operands.scalars.size(), items * nest.scalars.size());
  std::vector<int64_t> chunks;
  for (size_t item = 0; item < items; ++item)
    for (int64_t at = 0; at < operands.extents[item]; at += kHorizontalChunk) {
      chunks.push_back(static_cast<int64_t>(item));
      chunks.push_back(at);
    }
  WorkShape work = analysis.work(operands.extents.data());
  work.items[0] = static_cast<int64_t>(chunks.size() / 2);
  run(object, work,
      {.pointers = operands.pointers.data(),
       .extents = operands.extents.data(),
       .strides = nullptr,
       .index_strides = nullptr,
       .scalars = operands.scalars.data(),
       .scratch = nullptr,
       .chunks = chunks.data(),
       .status = nullptr});
}

}  // namespace neuron
