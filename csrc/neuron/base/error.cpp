// SPDX-License-Identifier: Apache-2.0
#include "neuron/base/error.h"

namespace neuron {

void throw_internal(const char* file, int line, const char* condition) {
  throw Error(ErrorCode::kInternal, std::string("internal error: ") + condition + " at " + file +
                                        ":" + std::to_string(line));
}

}  // namespace neuron
