// SPDX-License-Identifier: Apache-2.0
//
// OpRecord: one recorded operation, the unit of a stream's window.
//
// A record names its operation (a static op id), its operands and outputs as byte ranges of memory
// blocks with geometry, and its attributes as flat bytes. It holds blocks, never framework tensors:
// a block stays alive until its last record has run. Records and everything they point to live in
// the arena of the window that they were appended to; they are immutable after `append` and are
// executed once, in order, by whichever thread holds the stream's executor role.
//
// An operation without a lowering carries a HostCall, a closure that runs the framework's own CPU
// kernel on aliased memory.
#pragma once

#include <cstdint>
#include <span>

#include "neuron/ir/dtype.h"

namespace neuron {

class Block;
class Stream;

// Static operation ids. Lowered operations get ids from the operator table (values >= kFirstLowered);
// the ids below are the runtime's own.
enum class OpId : uint16_t {
  kHostCall = 0,     // HostCall::run on the executing thread
  kRecordEvent = 1,  // marks an event at this point of the timeline
  kWaitEvent = 2,    // blocks the stream until an event of another stream is reached
  kFirstLowered = 16,
};

// A strided view of (part of) a block. Sizes and strides are in elements, the offset in bytes from
// the block's address. `sizes` and `strides` have `rank` entries and live in the window's arena.
// A host call's references have rank 0: its closure knows the geometry.
struct TensorRef {
  Block* block = nullptr;
  int64_t byte_offset = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  uint8_t rank = 0;
  DType dtype = DType::kOpaque;
  bool overwrites = false;  // output only: every byte of the block is written, none is read
};

// The body of a host operation. `run` is called at most once, on a device thread or on a thread
// that synchronises, without the GIL; it may throw. The destructor runs on the same thread right
// after; it must not wait.
class HostCall {
 public:
  virtual ~HostCall() = default;
  virtual void run() = 0;
  // Static name such as "aten::mm.out", for errors and traces.
  virtual const char* name() const = 0;
};

// Where the user called the operation: an id of the process's source table (0: unknown).
using SourceId = uint32_t;

struct OpRecord {
  OpId op = OpId::kHostCall;
  SourceId source = 0;
  int64_t sequence_nr = -1;              // autograd sequence number, -1: none
  std::span<const TensorRef> inputs;     // read
  std::span<const TensorRef> outputs;    // written; an output that aliases an input is in-place
  std::span<const std::byte> attributes; // structural first, then values; layout is the op's
  HostCall* host = nullptr;              // owned by the window
  void* event = nullptr;                 // kRecordEvent, kWaitEvent: EventState
  Stream* event_stream = nullptr;        // kWaitEvent: the point to reach
  uint64_t event_value = 0;
  int64_t held_bytes = 0;                // memory beside blocks that the record keeps alive
};

}  // namespace neuron
