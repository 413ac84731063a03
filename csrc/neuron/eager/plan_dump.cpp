// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/plan_dump.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "neuron/base/config.h"
#include "neuron/eager/window_log.h"
#include "neuron/host/kernel_cache.h"
#include "neuron/host/kernel_compiler.h"
#include "neuron/trace/counters.h"
#include "neuron/trace/source_table.h"

namespace neuron {
namespace {

std::string numbered(const char* format, size_t n) {
  char text[32];
  std::snprintf(text, sizeof text, format, n);
  return text;
}

void add_operands(std::span<const TensorRef> refs, std::string* text) {
  const char* separator = " ";
  for (const TensorRef& ref : refs) {
    *text += separator;
    separator = ", ";
    *text += name(ref.dtype);
    *text += '[';
    for (int d = 0; d < ref.rank; ++d) *text += (d > 0 ? "," : "") + std::to_string(ref.sizes[d]);
    *text += ']';
  }
}

std::string steps_text(const WindowForm& form, const Plan& plan) {
  std::string text;
  const auto record_of = [&](int node) {
    return "%" + std::to_string(form.nodes[static_cast<size_t>(node)].record_index);
  };
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    text += numbered("k%02zu ", s);
    if (step.host_node >= 0) {
      text += "host " + record_of(step.host_node) + "\n";
      continue;
    }
    text += name(step.fused.nest.schedule);
    for (const int node : step.nodes) text += " " + record_of(node);
    text += "\n";
  }
  return text;
}

std::string llvm_ir(const std::string& nest) {
  try {
    return KernelCompiler::instance().compile(nest, host_features(), NEURON_CODEGEN_EMIT_IR);
  } catch (const std::exception& e) {
    return std::string("; ") + e.what() + "\n";
  }
}

}  // namespace

std::string to_text(const OpRecord& record) {
  std::string text = record_name(record);
  if (is_lowered(record.op)) {
    add_operands(record.outputs, &text);
    text += " <-";
    add_operands(record.inputs, &text);
  }
  const std::string source = source_text(record.source);
  return source.empty() ? text : text + "  " + source;
}

PlanDump::PlanDump(std::string directory, size_t max_files)
    : directory_(std::move(directory)), max_files_(max_files) {}

PlanDump& PlanDump::instance() {
  static auto* dump = new PlanDump(config().dump_dir);
  return *dump;
}

void PlanDump::write(const WindowForm& form, const Plan& plan, KernelCache& kernels) noexcept {
  static Counter& skipped = counter("Dump.Skipped");
  if (!enabled()) return;
  std::lock_guard lock(mutex_);
  if (files_ + 2 + 2 * plan.steps.size() > max_files_) {
    skipped.add();
    return;
  }
  try {
    if (!prepared_) {
      std::filesystem::create_directories(directory_);
      prepared_ = true;
    }
    write_plan(form, plan, kernels,
               "p" + std::to_string(::getpid()) + numbered("-%06zu-", ++plans_));
  } catch (const std::exception& e) {
    report(e.what());
  }
}

void PlanDump::write_plan(const WindowForm& form, const Plan& plan, KernelCache& kernels,
                          const std::string& prefix) {
  std::string window = "operations\n";
  const OpRecord* last = nullptr;
  for (const FormNode& node : form.nodes) {
    if (node.record == last) continue;  // another part of the same operation
    last = node.record;
    window += "%" + std::to_string(node.record_index) + " " + to_text(*node.record) + "\n";
  }
  write_file(prefix + "window.txt", window + "\nsteps\n" + steps_text(form, plan));
  write_file(prefix + "ir.txt", to_text(plan, form));
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.steps[s].host_node >= 0) continue;
    const LoopNest& nest = plan.steps[s].fused.nest;
    const std::string name =
        prefix + numbered("k%02zu-", s) + kernel_name(kernels.find(nest).key().hash.low);
    write_file(name + ".nest", to_text(nest));
    write_file(name + ".ll", llvm_ir(to_text(nest)));
  }
}

void PlanDump::write_file(const std::string& name, const std::string& text) {
  static Counter& files = counter("Dump.Files");
  const std::string path = directory_ + "/" + name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::system_error(errno, std::generic_category(), path);
  ++files_;
  files.add();
}

void PlanDump::report(const char* what) noexcept {
  static Counter& failed = counter("Dump.Failed");
  failed.add();
  if (reported_) return;
  reported_ = true;
  std::fprintf(stderr, "torch_neuronx: warning: TORCH_NEURONX_DUMP_DIR: %s; plans may be missing\n",
               what);
}

}  // namespace neuron
