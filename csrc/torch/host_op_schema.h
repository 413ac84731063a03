// SPDX-License-Identifier: Apache-2.0
//
// What the host-op path needs to know of an operator, derived from its schema once.
#pragma once

#include <atomic>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace neuron::glue {

struct HostOpSchema {
  struct Argument {
    bool written = false;       // the schema says that the operator mutates it
    bool out = false;           // an out= argument: may be resized
    bool host_allowed = false;  // PyTorch lets it live on the CPU (index tensors, lengths)
  };

  const char* name = nullptr;  // "aten::normal_", static lifetime
  std::vector<Argument> arguments;
  // Per return: the argument that it is, or -1 for a new tensor or value.
  std::vector<int> returned_arguments;
  int generator = -1;   // position of the Generator? argument
  bool random = false;  // draws random numbers
  bool queued = false;  // every return is an argument whose size cannot change
  mutable std::atomic<bool> warned{false};
};

// Cached; thread-safe. The reference stays valid until the process ends.
const HostOpSchema& host_op_schema(const c10::OperatorHandle& op);

}  // namespace neuron::glue
