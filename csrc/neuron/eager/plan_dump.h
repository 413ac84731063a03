// SPDX-License-Identifier: Apache-2.0
//
// PlanDump: what TORCH_NEURONX_DUMP_DIR asks for. Every new plan of the process becomes a few text
// files whose names sort by process and order:
//
//   p12345-000007-window.txt        the operations with shapes and source lines, and the steps
//   p12345-000007-ir.txt            the graph of every kernel
//   p12345-000007-k02-<hash>.nest   the loop nest of the kernel of step 2
//   p12345-000007-k02-<hash>.ll     its LLVM IR
//
// <hash> is the kernel's hash as `torch_neuronx.explain()` prints it. After kMaxFiles files the
// rest is skipped and counted. An error of the disk is reported once on standard error and counted;
// it never reaches the computation. Thread-safe.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "neuron/fuse/plan.h"

namespace neuron {

class KernelCache;

class PlanDump {
 public:
  static constexpr size_t kMaxFiles = 20'000;

  // An empty directory: nothing is ever written.
  explicit PlanDump(std::string directory, size_t max_files = kMaxFiles);
  // That of the configuration.
  static PlanDump& instance();

  bool enabled() const { return !directory_.empty(); }
  void write(const WindowForm& form, const Plan& plan, KernelCache& kernels) noexcept;

 private:
  void write_plan(const WindowForm& form, const Plan& plan, KernelCache& kernels,
                  const std::string& prefix);  // mutex_ held, as for the next two
  void write_file(const std::string& name, const std::string& text);
  void report(const char* what) noexcept;

  const std::string directory_;
  const size_t max_files_;
  std::mutex mutex_;
  size_t plans_ = 0;       // guarded by mutex_
  size_t files_ = 0;       // guarded by mutex_
  bool prepared_ = false;  // guarded by mutex_; the directory exists
  bool reported_ = false;  // guarded by mutex_
};

// "aten::add f32[4,32] <- f32[4,32], f32[32]  model.py:31 in forward"
std::string to_text(const OpRecord& record);

}  // namespace neuron
