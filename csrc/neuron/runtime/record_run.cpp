// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/record_run.h"

#include "neuron/runtime/block.h"
#include "neuron/trace/source_table.h"

namespace neuron {

std::shared_ptr<const Error> find_poison(const OpRecord& record) {
  for (const TensorRef& ref : record.inputs) {
    if (ref.block->poisoned()) return ref.block->poison();
  }
  return nullptr;
}

std::shared_ptr<const Error> describe_failure(const OpRecord& record, const char* name,
                                              ErrorCode code, const std::string& message) {
  std::string op = name;
  std::string source = source_text(record.source);
  std::string text = message + "\n[operator " + op;
  if (!source.empty()) text += ", called at " + source;
  text += "; the operation was queued, so the Python traceback may point at a later call]";
  return std::make_shared<const Error>(
      Error(code, std::move(text)).with_op(std::move(op)).with_source(std::move(source)));
}

std::shared_ptr<const Error> run_record(const OpRecord& record, const char* name,
                                        FunctionRef<void()> body) noexcept {
  if (const std::shared_ptr<const Error> poison = find_poison(record)) {
    settle(record, poison);
    return nullptr;
  }
  std::shared_ptr<const Error> error;
  try {
    body();
  } catch (const Error& e) {
    error = describe_failure(record, name, e.code(), e.message());
  } catch (const std::exception& e) {
    error = describe_failure(record, name, ErrorCode::kExecution, e.what());
  } catch (...) {
    error = describe_failure(record, name, ErrorCode::kExecution, "unknown exception");
  }
  settle(record, error);
  return error;
}

void settle(const OpRecord& record, const std::shared_ptr<const Error>& error) {
  for (const TensorRef& ref : record.outputs) {
    if (error != nullptr) {
      ref.block->set_poison(error);
    } else if (ref.block->poisoned() && ref.overwrites) {
      ref.block->set_poison(nullptr);
    }
  }
}

}  // namespace neuron
