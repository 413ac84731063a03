// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/executor.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "neuron/eager/plan_dump.h"
#include "neuron/host/kernel_launch.h"
#include "neuron/runtime/block.h"
#include "neuron/runtime/device.h"
#include "neuron/runtime/record_run.h"
#include "neuron/runtime/stream.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

using Clock = std::chrono::steady_clock;

// Compiles at idle priority get nothing while the machine is busy; a plan that waits longer than
// this has lost more than they would take.
constexpr auto kPatience = std::chrono::milliseconds(20);

constexpr auto kNap = std::chrono::milliseconds(10);  // between looks at a compile under way

bool any_input_poisoned(const WindowForm& form, const KernelPlan& plan) {
  for (size_t i = 0; i < plan.inputs; ++i) {
    const OperandPlan& o = plan.operands[i];
    const FormNode& node = form.nodes[static_cast<size_t>(o.node)];
    if (node.canonical.operands[o.operand].ref->block->poisoned()) return true;
  }
  return false;
}

}  // namespace

void install_eager_executor() {
  Stream::set_executor([](const Stream& stream) -> std::unique_ptr<RecordExecutor> {
    auto executor = std::make_unique<EagerExecutor>(KernelCache::instance(), &stream);
    if (EmulatedTarget* target = EmulatedTarget::configured()) executor->emulate(*target);
    return executor;
  });
}

EagerExecutor::EagerExecutor(KernelCache& kernels, const Stream* stream)
    : kernels_(kernels),
      log_(WindowLog::instance(), stream != nullptr ? stream->device().index() : 0,
           stream != nullptr ? stream->id() : 0) {}

void EagerExecutor::emulate(EmulatedTarget& target) {
  target_ = &target;
  slow_ = std::make_unique<SlowTargetPolicy>(target, cutter_);
}

size_t EagerExecutor::next_emulated(const Window& window, size_t begin, size_t end,
                                    const char* must_run) {
  static Counter& waits = counter("Emulated.CompileWait");
  const auto now = Clock::now();
  const bool strict = eager_mode() == EagerMode::kStrict;
  const size_t count = slow_->next(window, begin, end, must_run, strict, now);
  if (count > 0) {
    ended_ = slow_->reason();
  } else if (must_run != nullptr) {
    // The caller asks again, after it has looked for signals.
    waits.add();
    std::this_thread::sleep_until(std::min(target_->next_ready(now), now + kNap));
  }
  return count;
}

size_t EagerExecutor::next(const Window& window, size_t begin, size_t end,
                           const char* must_run) noexcept {
  if (left_ > 0) return left_;
  if (target_ != nullptr) return next_emulated(window, begin, end, must_run);
  if (eager_mode() == EagerMode::kStrict) {
    ended_ = window_end::kStrict;
    return 1;
  }
  const size_t count = cutter_.next(window, begin, end, must_run);
  ended_ = cutter_.reason();
  return count;
}

size_t EagerExecutor::run(const Window& window, size_t begin, size_t end, Failed failed) noexcept {
  const auto lowered = [&](size_t i) { return is_lowered(window[i].op); };
  if (left_ == 0) {
    left_ = end - begin;
    window_end::count(ended_);
    if (target_ != nullptr) {
      slow_->take(left_, Clock::now());
      target_->launch();
    }
    const bool seen = cutter_.take(window, begin, left_);
    const bool strict = eager_mode() == EagerMode::kStrict;
    fuse_ = seen && !strict;
    alone_ = strict ? WhySingle::kStrict : seen ? WhySingle::kAlone : WhySingle::kFirstSighting;
    log_.start(ended_);
  }
  size_t last = begin + left_;
  if (fuse_) {
    // Host calls at the end gain nothing from a plan.
    while (last > begin && !lowered(last - 1)) --last;
  }
  const bool fuse = fuse_ && last > begin + 1;
  if (!fuse) last = begin + 1;
  fuse_ = false;
  left_ -= last - begin;
  log_.add_ops(window, begin, last);
  if (!fuse && !lowered(begin)) {
    const OpRecord& record = window[begin];
    auto error = run_record(record, record_name(record), [&] { record.host->run(); });
    log_.step(begin, HowRun::kHost, WhySingle::kNone);
    if (left_ == 0) log_.finish();
    if (error != nullptr) failed(begin, std::move(error));
    return 1;
  }
  try {
    run_plan(window, begin, last, fuse, failed);
  } catch (const std::exception& e) {
    // Planning broke a contract; the records of the run did not compute.
    for (size_t i = begin; i < last; ++i) {
      const auto error =
          describe_failure(window[i], record_name(window[i]), ErrorCode::kInternal, e.what());
      settle(window[i], error);
      failed(i, error);
    }
  }
  if (left_ == 0) log_.finish();
  return last - begin;
}

void EagerExecutor::run_plan(const Window& window, size_t begin, size_t end, bool fuse,
                             Failed failed) {
  const WindowForm& form = analyzer_.analyze(window, begin, end);
  CachedPlan& plan = plans_.get(form, fuse);
  if (plan.uses == 1) PlanDump::instance().write(form, plan.plan, kernels_);
  if (fuse) log_.planned(plan.uses > 1);
  if (fuse && !plan.requested) request_kernels(&plan);
  temporaries_.start(form, plan.plan);
  for (size_t s = 0; s < plan.plan.steps.size(); ++s) {
    run_step(form, plan, s, failed);
    temporaries_.release_after(s);
  }
  temporaries_.finish();
}

void EagerExecutor::request_kernels(CachedPlan* plan) {
  plan->requested = true;
  plan->requested_at = Clock::now();
  for (Step& step : plan->plan.steps) {
    if (step.host_node >= 0 || step.singles.empty()) continue;
    Kernel& k = kernel(step.fused);
    if (k.object() == nullptr) kernels_.request(k);
  }
}

void EagerExecutor::hurry(CachedPlan* plan) {
  if (plan->hurried || Clock::now() - plan->requested_at < kPatience) return;
  plan->hurried = true;
  kernels_.hurry();
}

Kernel& EagerExecutor::kernel(KernelPlan& plan) {
  if (plan.kernel == nullptr) plan.kernel = &kernels_.find(plan.nest);
  return *plan.kernel;
}

void EagerExecutor::run_step(const WindowForm& form, CachedPlan& plan, size_t number,
                             Failed failed) {
  static Counter& fused = counter("Launch.Fused");
  static Counter& waiting = counter("Launch.FusedNotCompiled");
  Step& step = plan.plan.steps[number];
  if (step.host_node >= 0) {
    const FormNode& node = form.nodes[static_cast<size_t>(step.host_node)];
    const OpRecord& record = *node.record;
    auto error = run_record(record, record_name(record), [&] { record.host->run(); });
    log_.step(static_cast<size_t>(node.record_index), HowRun::kHost, WhySingle::kNone);
    if (error != nullptr) failed(static_cast<size_t>(node.record_index), std::move(error));
    return;
  }
  if (step.singles.empty()) return run_singles(form, step, alone_, failed);
  if (any_input_poisoned(form, step.fused)) {
    return run_singles(form, step, WhySingle::kPoisoned, failed);
  }
  const KernelObject* object = kernel(step.fused).object();
  if (object == nullptr) {
    waiting.add();
    hurry(&plan);
    const bool never = kernels_.state(kernel(step.fused)) == Kernel::State::kFailed;
    return run_singles(form, step, never ? WhySingle::kCompileFailed : WhySingle::kNotCompiled,
                       failed);
  }
  std::shared_ptr<const Error> error;
  const OpRecord& first = *form.nodes[static_cast<size_t>(step.nodes.front())].record;
  try {
    launch_plan(form, step.fused, plan.sizes[number], *object);
    fused.add();
  } catch (const Error& e) {
    error = describe_failure(first, record_name(first), e.code(), e.message());
  } catch (const std::exception& e) {
    error = describe_failure(first, record_name(first), ErrorCode::kExecution, e.what());
  }
  // Only exhausted memory gets here: what may raise for its values is never fused.
  for (int n : step.nodes) settle(*form.nodes[static_cast<size_t>(n)].record, error);
  log_.step(form, step.nodes, HowRun::kFused, WhySingle::kNone, step.fused.kernel);
  if (error != nullptr) {
    const FormNode& node = form.nodes[static_cast<size_t>(step.nodes.front())];
    failed(static_cast<size_t>(node.record_index), error);
  }
}

void EagerExecutor::run_singles(const WindowForm& form, Step& step, WhySingle why,
                                Failed failed) {
  static Counter& single = counter("Launch.Single");
  const size_t count = step.singles.empty() ? 1 : step.singles.size();
  for (size_t i = 0; i < count; ++i) {
    KernelPlan& plan = step.singles.empty() ? step.fused : step.singles[i];
    const FormNode& node = form.nodes[static_cast<size_t>(plan.nodes.front())];
    const OpRecord& record = *node.record;
    auto error = run_record(record, record_name(record), [&] {
      Kernel& k = kernel(plan);
      const KernelObject* object = k.object();
      if (object == nullptr) object = &kernels_.require(k);
      plan.axes.evaluate(form.nodes, &sizes_);
      launch_plan(form, plan, sizes_, *object);
      single.add();
    });
    if (error != nullptr) failed(static_cast<size_t>(node.record_index), std::move(error));
  }
  log_.step(form, step.nodes, HowRun::kSingle, why, step.fused.kernel);
}

void EagerExecutor::launch_plan(const WindowForm& form, KernelPlan& plan,
                                const std::vector<int64_t>& sizes, const KernelObject& object) {
  const Kernel& k = kernel(plan);
  const auto rank = static_cast<size_t>(k.nest().rank());
  const size_t dims = plan.dims.size();
  extents_.assign(rank, 1);
  for (size_t d = 0; d < dims; ++d) extents_[d] = sizes[static_cast<size_t>(plan.dims[d])];
  pointers_.resize(plan.operands.size());
  strides_.assign(plan.operands.size() * rank, 0);
  for (size_t i = 0; i < plan.operands.size(); ++i) {
    const OperandPlan& o = plan.operands[i];
    const FormNode& node = form.nodes[static_cast<size_t>(o.node)];
    pointers_[i] = temporaries_.address(node, o.operand);
    const auto& own = node.canonical.operands[o.operand].strides;
    for (size_t d = 0; d < dims; ++d) {
      const OperandPlan::AlongDim along = o.along[d];
      if (along.dim < 0) continue;
      int64_t stride = own[static_cast<size_t>(along.dim)];
      for (size_t inner = 0; inner < dims; ++inner) {
        if ((along.inner >> inner & 1) != 0) stride *= extents_[inner];
      }
      strides_[i * rank + d] = stride;
    }
  }
  scalars_.resize(plan.scalars.size());
  for (size_t i = 0; i < plan.scalars.size(); ++i) {
    const ScalarPlan& s = plan.scalars[i];
    scalars_[i] = scalar_bits(s.source, *form.nodes[static_cast<size_t>(s.node)].record);
  }
  launch(object, k.analysis(),
         {.pointers = pointers_, .extents = extents_, .strides = strides_, .scalars = scalars_});
}

}  // namespace neuron
