// SPDX-License-Identifier: Apache-2.0
//
// Window: a run of records of one stream, with the arena that they live in.
//
// States: open (records are appended under the stream's lock) -> sealed for a reason -> executed
// record by record -> cleared and recycled. Only the holder of the stream's executor role touches a
// sealed window, so a Window has no lock of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "neuron/ir/op_record.h"

namespace neuron {

// Why a window ended. Counted under "Seal.<name>".
enum class SealReason : uint8_t {
  kHostRead,      // .item(), .cpu(), printing, a data-dependent shape
  kSynchronize,   // an explicit wait for the stream or the device
  kQuery,         // somebody asked whether the work is done
  kDeviceIdle,    // the device thread ran dry and took what was there
  kBackPressure,  // too many operations or bytes in flight
  kMemory,        // the pool needs memory back
  kBlocking,      // NEURON_LAUNCH_BLOCKING=1
};
const char* name(SealReason reason);

// What a caller asks to record; spans are copied into the window.
struct RecordRequest {
  OpId op = OpId::kHostCall;
  SourceId source = 0;
  int64_t sequence_nr = -1;
  std::span<const TensorRef> inputs;
  std::span<const TensorRef> outputs;
  std::span<const std::byte> attributes;
  std::unique_ptr<HostCall> host;
  void* event = nullptr;     // EventState, one reference passes to the window
  Stream* event_stream = nullptr;
  uint64_t event_value = 0;
  int64_t held_bytes = 0;    // memory beside blocks that the record keeps alive (staged copies)
};

class Window {
 public:
  Window() = default;
  ~Window() { clear(); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Retains every block of the request.
  void append(RecordRequest&& request);

  // Moves all records of `other` behind the own ones; `other` is empty and open afterwards.
  void take(Window& other);

  size_t size() const { return records_.size(); }
  const OpRecord& operator[](size_t i) const { return records_[i]; }

  // Drops what record `i` owns (host call, event, blocks), after it has run or was skipped.
  void retire(size_t i);
  // Retires what is left and makes the window empty, keeping its arena's first chunk.
  void clear();

 private:
  template <typename T>
  std::span<const T> copy(std::span<const T> items);
  void* allocate(size_t bytes);

  static constexpr size_t kChunkBytes = 32 * 1024;
  struct Chunk {
    std::unique_ptr<std::byte[]> data;
    size_t size;
  };

  std::vector<OpRecord> records_;
  size_t retired_ = 0;  // records below are retired
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0;  // chunk being filled
  size_t used_ = 0;   // bytes of it
};

}  // namespace neuron
