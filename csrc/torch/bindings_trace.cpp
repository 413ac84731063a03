// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <map>
#include <string>
#include <vector>

#include "neuron/base/config.h"
#include "neuron/trace/counters.h"
#include "neuron/trace/distribution.h"
#include "torch/bindings.h"
#include "torch/op_tracking.h"
#include "torch/source.h"

namespace neuron::glue {
namespace py = pybind11;
namespace {

std::map<std::string, int64_t> counter_values() {
  const auto values = counters();
  return {values.begin(), values.end()};
}

py::list distribution_list() {
  py::list result;
  for (const DistributionData& d : distributions()) {
    py::dict entry;
    entry["name"] = d.name;
    entry["count"] = d.count;
    entry["total"] = d.total;
    entry["min"] = d.smallest;
    entry["max"] = d.largest;
    result.append(std::move(entry));
  }
  return result;
}

py::list config_list() {
  py::list result;
  for (const ConfigEntry& e : config_entries()) {
    py::dict entry;
    entry["variable"] = e.variable;
    entry["type"] = e.type;
    entry["default"] = e.default_value;
    entry["value"] = e.value;
    entry["description"] = e.description;
    result.append(std::move(entry));
  }
  return result;
}

// All operators with their calls: {name: calls}.
std::map<std::string, int64_t> executed() {
  std::map<std::string, int64_t> result;
  for (const OpCount& op : executed_ops()) {
    for (int64_t calls : op.calls) result[op.name] += calls;
  }
  return result;
}

// Operators that fell back: {name: {reason: calls}}.
std::map<std::string, std::map<std::string, int64_t>> fallbacks() {
  std::map<std::string, std::map<std::string, int64_t>> result;
  for (const OpCount& op : executed_ops()) {
    for (int i = 0; i < static_cast<int>(Route::kCount); ++i) {
      const char* reason = fallback_reason(static_cast<Route>(i));
      if (reason != nullptr && op.calls[i] > 0) result[op.name][reason] += op.calls[i];
    }
  }
  return result;
}

}  // namespace

void add_trace_bindings(py::module_& m) {
  define(m, "counters", &counter_values);
  define(m, "clear_counters", &clear_counters);
  define(m, "counter_descriptions", &counter_descriptions);
  define(m, "distributions", &distribution_list);
  define(m, "clear_distributions", &clear_distributions);
  define(m, "config_entries", &config_list);
  define(m, "executed_ops", &executed);
  define(m, "fallback_ops", &fallbacks);
  define(m, "clear_op_tracking", &clear_op_tracking);
  define(m, "set_library_paths", &set_library_paths);
}

}  // namespace neuron::glue
