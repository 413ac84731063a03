// SPDX-License-Identifier: Apache-2.0
//
// EagerExecutor: runs the records of a stream by plans.
//
// A run of records becomes a WindowForm, that a Plan (mostly from the cache), and its steps run one
// after the other: host calls, fused kernels where they are compiled, else the kernels of the same
// operations one by one. A window is planned, and its fused kernels are compiled in the background,
// when it repeats (eager/cutter.h). In strict mode every window is one record; nothing else
// differs, and neither do the bits.
//
// Errors are those of the records one by one: if an input of a fused kernel is poisoned, its
// operations run alone, so that exactly the dependent ones are skipped.
//
//   Stream::set_executor([]() -> std::unique_ptr<RecordExecutor> {
//     return std::make_unique<EagerExecutor>(KernelCache::instance());
//   });
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "neuron/eager/analysis.h"
#include "neuron/eager/cutter.h"
#include "neuron/eager/emulated_target.h"
#include "neuron/eager/mode.h"
#include "neuron/eager/plan_cache.h"
#include "neuron/eager/slow_target_policy.h"
#include "neuron/eager/temporaries.h"
#include "neuron/eager/window_end.h"
#include "neuron/eager/window_log.h"
#include "neuron/host/kernel_cache.h"
#include "neuron/runtime/record_executor.h"

namespace neuron {

// Makes every stream run lowered operations with KernelCache::instance().
void install_eager_executor();

class EagerExecutor final : public RecordExecutor {
 public:
  using Failed = FunctionRef<void(size_t, std::shared_ptr<const Error>)>;

  // `stream`: whose records it runs, for the log; may be null.
  explicit EagerExecutor(KernelCache& kernels, const Stream* stream = nullptr);

  // Waits for and launches what `target` would have; before the first record. The target must
  // outlive the executor.
  void emulate(EmulatedTarget& target);

  size_t next(const Window& window, size_t begin, size_t end,
              const char* must_run) noexcept override;
  size_t run(const Window& window, size_t begin, size_t end, Failed failed) noexcept override;

 private:
  size_t next_emulated(const Window& window, size_t begin, size_t end, const char* must_run);
  void run_plan(const Window& window, size_t begin, size_t end, bool fuse, Failed failed);
  void run_step(const WindowForm& form, CachedPlan& plan, size_t step, Failed failed);
  void run_singles(const WindowForm& form, Step& step, WhySingle why, Failed failed);
  void launch_plan(const WindowForm& form, KernelPlan& plan, const std::vector<int64_t>& sizes,
                   const KernelObject& object);
  Kernel& kernel(KernelPlan& plan);
  void request_kernels(CachedPlan* plan);
  void hurry(CachedPlan* plan);

  KernelCache& kernels_;
  Cutter cutter_;
  EmulatedTarget* target_ = nullptr;        // null: the host's own, and compiles are quick
  std::unique_ptr<SlowTargetPolicy> slow_;  // with target_
  size_t left_ = 0;                         // records of the current window that have not run
  bool fuse_ = false;                       // the rest of the current window becomes one plan
  const char* ended_ = window_end::kCut;    // why the current window has no more records
  WhySingle alone_ = WhySingle::kAlone;     // why operations run outside of a plan of the window
  WindowLogWriter log_;
  WindowAnalyzer analyzer_;
  PlanCache plans_;
  TemporaryMemory temporaries_;

  // Arguments of a launch; kept to save allocations.
  std::vector<int64_t> sizes_;
  std::vector<void*> pointers_;
  std::vector<int64_t> extents_;
  std::vector<int64_t> strides_;
  std::vector<uint64_t> scalars_;
};

}  // namespace neuron
