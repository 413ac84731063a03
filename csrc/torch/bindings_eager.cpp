// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <string>

#include "neuron/base/process.h"
#include "neuron/eager/mode.h"
#include "neuron/eager/window_log.h"
#include "neuron/host/kernel_cache.h"
#include "neuron/runtime/runtime.h"
#include "neuron/trace/source_table.h"
#include "torch/bindings.h"

namespace neuron::glue {
namespace py = pybind11;
namespace {

std::string get_mode() { return name(eager_mode()); }

// Lets everything queued run; errors stay for the next wait.
void drain() {
  check_not_forked();
  Runtime::instance().drain(SealReason::kSynchronize);
}

// What was queued before runs in the old mode. Leaving a `with` block raises nothing of its own.
void set_mode(const std::string& text) {
  const EagerMode mode = parse_eager_mode(text);
  if (mode == eager_mode()) return;
  drain();
  set_eager_mode(mode);
}

py::list operand_list(const LoggedWindow& window, const LoggedOp& op, bool output) {
  py::list result;
  for (const LoggedTensor& t : window.operands(op)) {
    if (t.output != output || !t.sized) continue;
    result.append(py::make_tuple(name(t.dtype), py::tuple(py::cast(t.sizes))));
  }
  return result;
}

py::dict window_dict(const LoggedWindow& window) {
  py::list ops;
  for (const LoggedOp& op : window.ops) {
    const SourceLines source = source_lines(op.source);
    py::dict entry;
    entry["name"] = op.name;
    entry["source"] = source.line;
    entry["backward"] = source.backward;
    entry["backward_call"] = source.backward_call;
    entry["outputs"] = operand_list(window, op, true);
    entry["inputs"] = operand_list(window, op, false);
    ops.append(std::move(entry));
  }
  py::list steps;
  for (const LoggedStep& step : window.steps) {
    py::list members;
    for (uint32_t i = 0; i < step.count; ++i) members.append(window.step_ops[step.first + i]);
    py::dict entry;
    entry["how"] = name(step.how);
    entry["why_single"] = name(step.why);
    entry["ops"] = std::move(members);
    entry["schedule"] = step.schedule;
    entry["kernel"] = step.kernel != 0 ? kernel_name(step.kernel) : "";
    entry["seconds"] = WindowLog::seconds(step.ticks);
    steps.append(std::move(entry));
  }
  py::dict result;
  result["number"] = window.number;
  result["windows"] = window.windows;
  result["device"] = window.device;
  result["stream"] = window.stream;
  result["ended"] = window.ended;
  result["plan"] = !window.planned ? "" : window.plan_hit ? "hit" : "miss";
  result["seconds"] = WindowLog::seconds(window.ticks);
  result["ops"] = std::move(ops);
  result["steps"] = std::move(steps);
  return result;
}

py::list last_windows(int64_t count) {
  py::list result;
  for (const LoggedWindow& w : WindowLog::instance().last(static_cast<size_t>(count))) {
    result.append(window_dict(w));
  }
  return result;
}

// Lets the background finish its kernels.
void wait_for_compiles() {
  py::gil_scoped_release no_gil;
  KernelCache::instance().wait_idle();
}

void clear_windows() { WindowLog::instance().clear(); }
void enable_windows(bool on) { WindowLog::instance().set_enabled(on); }
bool windows_enabled() { return WindowLog::instance().enabled(); }

}  // namespace

void add_eager_bindings(py::module_& m) {
  define(m, "eager_mode", &get_mode);
  define(m, "set_eager_mode", &set_mode);
  define(m, "drain", &drain);
  define(m, "wait_for_compiles", &wait_for_compiles);
  define(m, "last_windows", &last_windows);
  define(m, "clear_windows", &clear_windows);
  define(m, "enable_windows", &enable_windows);
  define(m, "windows_enabled", &windows_enabled);
  m.attr("max_windows") = WindowLog::kWindows;
}

}  // namespace neuron::glue
