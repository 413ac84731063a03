// SPDX-License-Identifier: Apache-2.0
//
// Snapshots and history of the memory pools in the shape of torch.cuda.memory, which the standard
// visualisers read. Stack traces are captured by PyTorch's own unwinder.
#include <pybind11/stl.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "torch/bindings.h"
#include "torch/current.h"

namespace torch {
// Exported by libtorch_python; its header needs a JSON library that wheels do not carry.
std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
}  // namespace torch

namespace neuron::glue {
namespace py = pybind11;
namespace {

using Traceback = torch::CapturedTraceback;

Traceback* traceback_of(const MemoryEvent& event) {
  return static_cast<Traceback*>(event.context.get());
}

// Symbolises each distinct traceback once.
class Frames {
 public:
  explicit Frames(const std::vector<MemoryEvent>& events) {
    std::vector<Traceback*> tracebacks;
    for (const MemoryEvent& event : events) {
      Traceback* traceback = traceback_of(event);
      if (traceback != nullptr && index_.try_emplace(traceback, tracebacks.size()).second) {
        tracebacks.push_back(traceback);
      }
    }
    frames_ = torch::py_symbolize(tracebacks);
  }
  py::object operator()(const Traceback* traceback) const {
    if (traceback == nullptr) return py::list();
    return frames_[index_.at(traceback)];
  }

 private:
  std::unordered_map<const Traceback*, size_t> index_;
  std::vector<py::object> frames_;
};

const char* action_name(MemoryEvent::Action action) {
  switch (action) {
    case MemoryEvent::Action::kAlloc:
      return "alloc";
    case MemoryEvent::Action::kFreeRequested:
      return "free_requested";
    case MemoryEvent::Action::kFreeCompleted:
      return "free_completed";
    case MemoryEvent::Action::kSegmentAlloc:
      return "segment_alloc";
    case MemoryEvent::Action::kSegmentFree:
      return "segment_free";
    case MemoryEvent::Action::kOom:
      return "oom";
  }
  return "?";
}

const char* state_name(BlockSnapshot::State state) {
  switch (state) {
    case BlockSnapshot::State::kActive:
      return "active_allocated";
    case BlockSnapshot::State::kAwaitingFree:
      return "active_awaiting_free";
    case BlockSnapshot::State::kInactive:
      return "inactive";
  }
  return "?";
}

// The visualisers show 0 as the default stream.
int64_t stream_number(const Stream* stream) { return stream != nullptr ? stream->id() : 0; }

py::dict to_python(const SegmentSnapshot& segment, int device,
                   const std::unordered_map<const std::byte*, py::object>& allocated_at) {
  py::list blocks;
  size_t allocated = 0, active = 0, requested = 0;
  for (const BlockSnapshot& block : segment.blocks) {
    const bool in_use = block.state == BlockSnapshot::State::kActive;
    if (in_use) allocated += block.size;
    if (block.state != BlockSnapshot::State::kInactive) {
      active += block.size;
      requested += block.requested_size;
    }
    const auto frames = allocated_at.find(block.address);
    py::dict entry;
    entry["address"] = reinterpret_cast<uintptr_t>(block.address);
    entry["size"] = block.size;
    entry["requested_size"] = block.requested_size;
    entry["state"] = state_name(block.state);
    entry["frames"] = in_use && frames != allocated_at.end() ? frames->second : py::list();
    blocks.append(std::move(entry));
  }
  py::dict entry;
  entry["device"] = device;
  entry["address"] = reinterpret_cast<uintptr_t>(segment.address);
  entry["total_size"] = segment.size;
  entry["allocated_size"] = allocated;
  entry["active_size"] = active;
  entry["requested_size"] = requested;
  entry["stream"] = stream_number(segment.stream);
  entry["segment_type"] = segment.large ? "large" : "small";
  entry["segment_pool_id"] = py::make_tuple(0, 0);
  entry["is_expandable"] = false;
  entry["frames"] = py::list();
  entry["blocks"] = std::move(blocks);
  return entry;
}

py::dict to_python(const MemoryEvent& event, const Frames& frames) {
  py::dict entry;
  entry["action"] = action_name(event.action);
  // An out-of-memory event carries the free bytes in place of the address.
  entry[event.action == MemoryEvent::Action::kOom ? "device_free" : "addr"] =
      reinterpret_cast<uintptr_t>(event.address);
  entry["size"] = event.size;
  entry["stream"] = stream_number(event.stream);
  entry["time_us"] = event.time_ns / 1000;
  entry["pool_id"] = py::make_tuple(0, 0);
  entry["frames"] = frames(traceback_of(event));
  return entry;
}

py::dict snapshot() {
  py::list segments, traces;
  const bool used = Runtime::initialized();
  const int devices = used ? Runtime::instance().device_count() : 0;
  for (int i = 0; i < devices; ++i) {
    MemoryPool& pool = Runtime::instance().device(i).pool();
    pool.reclaim();
    const std::vector<MemoryEvent> events = pool.history();
    const Frames frames(events);
    py::list trace;
    std::unordered_map<const std::byte*, py::object> allocated_at;
    for (const MemoryEvent& event : events) {
      trace.append(to_python(event, frames));
      if (event.action == MemoryEvent::Action::kAlloc) {
        allocated_at[event.address] = frames(traceback_of(event));
      }
    }
    for (const SegmentSnapshot& segment : pool.snapshot()) {
      segments.append(to_python(segment, i, allocated_at));
    }
    traces.append(std::move(trace));
  }
  py::dict result;
  result["segments"] = std::move(segments);
  result["device_traces"] = std::move(traces);
  result["allocator_settings"] = py::dict();
  return result;
}

void record_history(size_t max_entries, bool python, bool cpp) {
  std::function<std::shared_ptr<void>()> context;
  if (python || cpp) {
    context = [python, cpp] { return Traceback::gather(python, /*script=*/false, cpp); };
  }
  for (int i = 0; i < Runtime::instance().device_count(); ++i) {
    Runtime::instance().device(i).pool().record_history(max_entries, context);
  }
}

}  // namespace

void add_memory_bindings(py::module_& m) {
  define(m, "memory_snapshot", &snapshot);
  define(m, "record_memory_history", &record_history);
}

}  // namespace neuron::glue
