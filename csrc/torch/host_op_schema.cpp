// SPDX-License-Identifier: Apache-2.0
#include "torch/host_op_schema.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace neuron::glue {
namespace {

// Arguments that CUDA, too, accepts on the CPU beside device tensors.
bool host_argument(const std::string& op, const std::string& argument) {
  if (argument == "indices" && op.find("index") != std::string::npos) return true;
  if (op == "aten::_pack_padded_sequence" || op == "aten::_pad_packed_sequence") {
    return argument == "lengths" || argument == "batch_sizes";
  }
  if (op == "aten::_ctc_loss" || op == "aten::_ctc_loss_backward") {
    return argument == "input_lengths" || argument == "target_lengths" || argument == "targets";
  }
  if (op == "aten::tensor_split") return argument == "tensor_indices_or_sections";
  return false;
}

int argument_of(const c10::FunctionSchema& schema, const c10::Argument& result) {
  const c10::AliasInfo* alias = result.alias_info();
  if (alias == nullptr || !alias->isWrite()) return -1;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::AliasInfo* other = schema.arguments()[i].alias_info();
    if (other != nullptr && other->isWrite() && other->beforeSets() == alias->beforeSets()) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::unique_ptr<HostOpSchema> derive(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  auto info = std::make_unique<HostOpSchema>();
  const std::string full = schema.overload_name().empty()
                               ? schema.name()
                               : schema.name() + "." + schema.overload_name();
  info->name = (new std::string(full))->c_str();  // kept: records and counters hold it

  bool writes = false, has_out = false;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    HostOpSchema::Argument a;
    a.written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    a.out = argument.is_out() || (a.written && argument.kwarg_only());
    a.host_allowed = host_argument(schema.name(), argument.name());
    writes |= a.written;
    has_out |= a.out;
    if (argument.name() == "generator") info->generator = static_cast<int>(i);
    info->arguments.push_back(a);
  }
  bool returns_arguments = true;
  for (const c10::Argument& result : schema.returns()) {
    info->returned_arguments.push_back(argument_of(schema, result));
    returns_arguments &= info->returned_arguments.back() >= 0;
  }
  bool changes_metadata = false;
  for (at::Tag tag : op.getTags()) {
    if (tag == at::Tag::nondeterministic_seeded) info->random = true;
    if (tag == at::Tag::inplace_view) changes_metadata = true;
  }
  // Without a generator argument a random kernel must borrow the CPU's, which needs the caller.
  info->queued = writes && returns_arguments && !has_out && !changes_metadata &&
                 !(info->random && info->generator < 0);
  return info;
}

}  // namespace

const HostOpSchema& host_op_schema(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static auto* known = new std::unordered_map<const void*, std::unique_ptr<HostOpSchema>>;
  thread_local std::unordered_map<const void*, const HostOpSchema*> mine;  // lock-free after first use
  const void* key = &op.schema();
  const HostOpSchema*& found = mine[key];
  if (found == nullptr) {
    std::lock_guard lock(mutex);
    auto& shared = (*known)[key];
    if (shared == nullptr) shared = derive(op);
    found = shared.get();
  }
  return *found;
}

}  // namespace neuron::glue
