// SPDX-License-Identifier: Apache-2.0
//
// HostTarget: virtual NeuronCores on the host's processor and memory.
//
// Devices. Device i is virtual core `core(i)`. NEURON_RT_VISIBLE_CORES lists the cores that the
// process sees; without it there are NEURON_RT_NUM_CORES, numbered from 0.
//
// Capacity. Each core has TORCH_NEURONX_VIRTUAL_HBM_GB, but at most its part of 80 % of the memory
// that the machine, or the container that the process runs in, allows; parts are equal among all
// cores of the machine, seen by this process or not. So filling every core raises an error that
// names the cause, and does not wake the kernel's out-of-memory killer.
//
// Immutable after construction; all members are thread-safe.
//
//   HostTarget::set_thread_preparation(&prepare);   // before the first device thread
//   Runtime::start(std::make_unique<HostTarget>(HostTarget::Options::from_config()));
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "neuron/target/target.h"

namespace neuron {

class HostTarget : public Target {
 public:
  static constexpr int kMaxCores = 64;

  struct Options {
    int64_t num_cores = 4;
    std::string visible_cores;     // empty: all
    double virtual_hbm_gb = 24.0;  // GiB of one core
    int64_t memory_limit = 0;      // bytes that the machine or container allows

    static Options from_config();
  };

  // Throws kInvalidArgument naming the environment variable whose value is wrong.
  explicit HostTarget(const Options& options);

  const char* name() const override { return "host"; }
  int device_count() const override { return static_cast<int>(cores_.size()); }
  DeviceProperties properties(int device) const override;
  // The number of the virtual core that is device `device`.
  int core(int device) const;

  // Memory is zero-filled by the kernel at first touch; segments of at least a huge page are
  // aligned to one and ask for them.
  void* allocate_segment(int device, size_t bytes) override;
  void free_segment(int device, void* address, size_t bytes) override;

  void prepare_thread() override;
  // What a layer above does on every thread that executes records; nullptr: nothing.
  static void set_thread_preparation(void (*prepare)());

 private:
  void check_device(int device) const;

  std::vector<int> cores_;
  int64_t capacity_;  // of one core, in bytes
};

}  // namespace neuron
