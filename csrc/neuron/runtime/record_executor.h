// SPDX-License-Identifier: Apache-2.0
//
// RecordExecutor: how a stream runs records. Implemented above the runtime (eager/executor.h);
// every stream has one of its own, called only by the holder of the executor role.
#pragma once

#include <cstddef>
#include <memory>

#include "neuron/base/error.h"
#include "neuron/base/function_ref.h"
#include "neuron/runtime/window.h"

namespace neuron {

class RecordExecutor {
 public:
  virtual ~RecordExecutor() = default;

  // How many of the records [begin, end) should run next; none is an event's. 0: better wait for more
  // records; if `must_run`, which is null or the name of the reason, only after a short wait for
  // what the records need. Asked again until the answer is taken.
  virtual size_t next(const Window& window, size_t begin, size_t end,
                      const char* must_run) noexcept = 0;

  // Runs at least one of the records [begin, end), as `next` gave them, from `begin` on, and returns
  // how many have run. A failed record leaves its outputs poisoned (record_run.h) and is
  // reported once.
  virtual size_t run(const Window& window, size_t begin, size_t end,
                     FunctionRef<void(size_t, std::shared_ptr<const Error>)> failed) noexcept = 0;
};

}  // namespace neuron
