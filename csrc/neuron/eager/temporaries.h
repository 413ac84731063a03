// SPDX-License-Identifier: Apache-2.0
//
// TemporaryMemory: where the temporaries of a running window live. Steps run in another order than
// the records, so a temporary whose recorded memory also belongs to another block of the window
// moves to scratch memory; the others keep their recorded address. Scratch lives from the first to
// the last step that touches it and is reused. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "neuron/fuse/plan.h"

namespace neuron {

class TemporaryMemory {
 public:
  // Starts a window. The arguments must live until `finish`.
  void start(const WindowForm& form, const Plan& plan);
  // Address of the first element of a node's operand. Throws kOutOfMemory.
  std::byte* address(const FormNode& node, size_t operand);
  // Step `step` has run: what no later step touches is given back.
  void release_after(size_t step);
  void finish();

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  struct Moved {
    size_t bytes;
    size_t last_step = 0;
    Memory memory;  // from the first use to the last step
  };

  void find_moved();
  Memory take(size_t bytes);
  void give(size_t bytes, Memory memory);

  static constexpr size_t kMaxCachedBytes = size_t{64} << 20;

  const WindowForm* form_ = nullptr;
  const Plan* plan_ = nullptr;
  bool searched_ = false;  // find_moved has run for this window
  std::vector<Moved> moved_;
  std::vector<int32_t> moved_of_block_;  // per block of the form, -1: stays; unless moved_ is empty
  std::multimap<size_t, Memory> cached_;
  size_t cached_bytes_ = 0;
};

}  // namespace neuron
