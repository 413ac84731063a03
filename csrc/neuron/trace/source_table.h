// SPDX-License-Identifier: Apache-2.0
//
// SourceTable: source lines by small ids, so that a record carries four bytes. The layer above
// interns "file:line" texts. An operation of a backward pass has two lines: that of the forward
// operation whose gradient it computes, and that of the call that runs the backward pass; the pair
// is an id of its own. Ids are stable until the process ends. Thread-safe.
#pragma once

#include <string>

#include "neuron/ir/op_record.h"

namespace neuron {

SourceId intern_source(const std::string& text);
// The pair; `call` may be 0 (unknown). Of a `forward` that is a pair itself its forward line
// counts.
SourceId intern_backward(SourceId forward, SourceId call);

struct SourceLines {
  std::string line{};           // "" for id 0
  std::string backward_call{};  // of a pair: the line of the backward call, "" if unknown
  bool backward = false;
};
SourceLines source_lines(SourceId id);

// One text for messages: "model.py:31 in forward (backward: train.py:12 in step)".
std::string source_text(SourceId id);

}  // namespace neuron
