// SPDX-License-Identifier: Apache-2.0
//
// SourceTable: source lines by small ids, so that a record carries four bytes. The layer above
// interns "file:line" texts; ids are stable until the process ends. Thread-safe.
#pragma once

#include <string>

#include "neuron/ir/op_record.h"

namespace neuron {

SourceId intern_source(const std::string& text);
std::string source_text(SourceId id);  // "" for 0

}  // namespace neuron
