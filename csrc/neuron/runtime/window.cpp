// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/window.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "neuron/runtime/block.h"
#include "neuron/runtime/event.h"

namespace neuron {

const char* name(SealReason reason) {
  switch (reason) {
    case SealReason::kHostRead:
      return "HostRead";
    case SealReason::kSynchronize:
      return "Synchronize";
    case SealReason::kQuery:
      return "Query";
    case SealReason::kDeviceIdle:
      return "DeviceIdle";
    case SealReason::kBackPressure:
      return "BackPressure";
    case SealReason::kMemory:
      return "Memory";
    case SealReason::kBlocking:
      return "Blocking";
  }
  return "?";
}

void* Window::allocate(size_t bytes) {
  bytes = (bytes + 15) & ~size_t{15};
  while (chunk_ < chunks_.size() && used_ + bytes > chunks_[chunk_].size) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const size_t size = std::max(kChunkBytes, bytes);
    chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size), size});
  }
  void* result = chunks_[chunk_].data.get() + used_;
  used_ += bytes;
  return result;
}

template <typename T>
std::span<const T> Window::copy(std::span<const T> items) {
  if (items.empty()) return {};
  T* target = static_cast<T*>(allocate(items.size_bytes()));
  std::memcpy(target, items.data(), items.size_bytes());
  return {target, items.size()};
}

void Window::append(RecordRequest&& request) {
  OpRecord record;
  record.op = request.op;
  record.source = request.source;
  record.sequence_nr = request.sequence_nr;
  record.inputs = copy(request.inputs);
  record.outputs = copy(request.outputs);
  record.attributes = copy(request.attributes);
  for (auto refs : {record.inputs, record.outputs}) {
    for (const TensorRef& ref : refs) {
      auto& mutable_ref = const_cast<TensorRef&>(ref);
      mutable_ref.sizes = copy(std::span(ref.sizes, ref.rank)).data();
      mutable_ref.strides = copy(std::span(ref.strides, ref.rank)).data();
      ref.block->retain();
    }
  }
  record.event = request.event;
  record.event_stream = request.event_stream;
  record.event_value = request.event_value;
  record.held_bytes = request.held_bytes;
  records_.push_back(record);
  records_.back().host = request.host.release();
}

void Window::take(Window& other) {
  records_.insert(records_.end(), other.records_.begin(), other.records_.end());
  other.records_.clear();
  // What the records point to stays where it is; a sealed window appends nothing of its own.
  std::move(other.chunks_.begin(), other.chunks_.end(), std::back_inserter(chunks_));
  other.chunks_.clear();
  other.chunk_ = 0;
  other.used_ = 0;
  chunk_ = chunks_.size();
  used_ = 0;
}

void Window::retire(size_t i) {
  OpRecord& record = records_[i];
  delete record.host;
  record.host = nullptr;
  if (record.event != nullptr) static_cast<EventState*>(record.event)->release();
  record.event = nullptr;
  for (const TensorRef& ref : record.inputs) ref.block->release();
  for (const TensorRef& ref : record.outputs) ref.block->release();
  retired_ = i + 1;
}

void Window::clear() {
  for (size_t i = retired_; i < records_.size(); ++i) retire(i);
  records_.clear();
  retired_ = 0;
  if (chunks_.size() > 1) chunks_.resize(1);
  chunk_ = 0;
  used_ = 0;
}

}  // namespace neuron
