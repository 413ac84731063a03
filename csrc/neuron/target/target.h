// SPDX-License-Identifier: Apache-2.0
//
// Target: what a kind of device must provide to the runtime. `tests/conformance` holds the contract
// as tests that every target has to pass.
//
// One Target object exists per process; it is immutable and all members are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace neuron {

struct DeviceProperties {
  std::string name;         // "Virtual NeuronCore (host CPU)"
  bool is_virtual = false;  // values are computed by the host, not by an accelerator
  int64_t total_memory = 0; // capacity in bytes that the memory pool may hand out
};

class Target {
 public:
  virtual ~Target() = default;

  virtual const char* name() const = 0;
  virtual int device_count() const = 0;
  virtual DeviceProperties properties(int device) const = 0;

  // A segment of device memory, aligned to at least 4 KiB, contents undefined. Returns nullptr when
  // the machine has no more; throws only for invalid arguments.
  virtual void* allocate_segment(int device, size_t bytes) = 0;
  virtual void free_segment(int device, void* address, size_t bytes) = 0;

  // Called once on every thread that will execute records, before the first one.
  virtual void prepare_thread() = 0;
};

}  // namespace neuron
