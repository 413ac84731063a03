// SPDX-License-Identifier: Apache-2.0
#include "torch/backward_source.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/node.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <typeinfo>

#include "neuron/trace/source_table.h"

namespace neuron::glue {
namespace {

constexpr int kSlotBits = 16;
constexpr uint64_t kSlots = uint64_t{1} << kSlotBits;
constexpr uint64_t kMaxFilled = 64;  // numbers that one operation is remembered under

// High half: thread and upper bits of the number; low half: the source, above it whether the number
// is that of an operation which followed. Zero pages until used.
std::array<std::atomic<uint64_t>, kSlots> slots;
constexpr uint64_t kFollowed = uint64_t{1} << 31;
constexpr uint64_t kSourceMask = kFollowed - 1;

uint64_t slot_of(uint64_t thread, uint64_t number) {
  return (number + thread * 0x9E3779B97F4A7C15ull) % kSlots;
}
uint64_t tag_of(uint64_t thread, uint64_t number) {
  return (thread << 20 | (number >> kSlotBits & 0xfffff)) << 32;
}

void put(uint64_t thread, uint64_t number, uint64_t source) {
  slots[slot_of(thread, number)].store(tag_of(thread, number) | source, std::memory_order_relaxed);
}

// 0: unknown.
uint64_t get(uint64_t thread, uint64_t number) {
  const uint64_t entry = slots[slot_of(thread, number)].load(std::memory_order_relaxed);
  return (entry ^ tag_of(thread, number)) >> 32 == 0 ? entry & 0xffffffff : 0;
}

SourceId forward_line(const torch::autograd::Node& node) {
  const uint64_t number = node.sequence_nr();
  if (number == std::numeric_limits<uint64_t>::max()) return 0;  // AccumulateGrad
  uint64_t found = get(node.thread_id(), number);
  // The node of an in-place operation on a view is created after the operation has run.
  if ((found & kFollowed) != 0 && number > 0 &&
      typeid(node) == typeid(torch::autograd::CopySlices)) {
    found = get(node.thread_id(), number - 1);
  }
  return static_cast<SourceId>(found & kSourceMask);
}

SourceId pair_of(SourceId forward, SourceId call) {
  struct Pair {
    SourceId forward = 0, call = 0, id = 0;
  };
  thread_local std::array<Pair, 512> cache;
  Pair& entry = cache[(forward * 31 + call) % cache.size()];
  if (entry.forward != forward || entry.call != call) {
    entry = {forward, call, intern_backward(forward, call)};
  }
  return entry.id;
}

void remember(SourceId source) {
  thread_local uint64_t done = 0;  // smaller numbers have their line
  thread_local const uint64_t thread = at::RecordFunction::currentThreadId();
  const uint64_t next = at::sequence_number::peek();
  if (next <= done) return;
  for (uint64_t n = std::max(done, next > kMaxFilled ? next - kMaxFilled : 0); n + 1 < next; ++n) {
    put(thread, n, source | kFollowed);
  }
  put(thread, next - 1, source);
  done = next;
}

}  // namespace

SourceId with_backward(SourceId line, bool from_engine) noexcept {
  SourceId shown = line;
  if (const auto node = torch::autograd::get_current_node()) {
    if (const SourceId forward = forward_line(*node)) shown = pair_of(forward, line);
  }
  remember(from_engine ? shown : line);
  return shown;
}

}  // namespace neuron::glue
