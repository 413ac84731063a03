// SPDX-License-Identifier: Apache-2.0
//
// What running a record means for errors: records that read poison are skipped and pass it on, a
// record that fails poisons its outputs, one that overwrites a block completely heals it. Shared by
// the stream and the executors of lowered operations. Called by the holder of the executor role.
#pragma once

#include <memory>
#include <string>

#include "neuron/base/error.h"
#include "neuron/base/function_ref.h"
#include "neuron/ir/op_record.h"

namespace neuron {

// The poison of the first poisoned input, or null.
std::shared_ptr<const Error> find_poison(const OpRecord& record);

// Runs `body` unless an input is poisoned, and marks the outputs. Returns the error if the body
// threw one; `name` is the operator's.
std::shared_ptr<const Error> run_record(const OpRecord& record, const char* name,
                                        FunctionRef<void()> body) noexcept;

// Marks the outputs as results of a run with `error` (null: it succeeded).
void settle(const OpRecord& record, const std::shared_ptr<const Error>& error);

// An error of a failed record, with what a reader needs to find it.
std::shared_ptr<const Error> describe_failure(const OpRecord& record, const char* name,
                                              ErrorCode code, const std::string& message);

}  // namespace neuron
