// SPDX-License-Identifier: Apache-2.0
//
// WindowAnalyzer: from a run of records to a WindowForm: canonical geometry, dependencies through
// memory, temporaries and the window's key. Runs before every execution; keeps its buffers, so that
// a steady state allocates nothing. Not thread-safe.
//
// Dependencies are exact over address intervals. Blocks that overlap (adopted memory, or memory
// that was reused while the window was recorded) are one region. A *temporary* is a block that no
// storage owns and no record outside the run holds, that is first written, and that host calls do
// not touch: nobody can see its memory, so it may live anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "neuron/fuse/form.h"
#include "neuron/runtime/window.h"

namespace neuron {

class WindowAnalyzer {
 public:
  // Records [begin, end) of the window; none is an event's. The result is valid until the next call
  // and refers to the window.
  const WindowForm& analyze(const Window& window, size_t begin, size_t end);

 private:
  // Of form_.blocks, by index.
  struct BlockState {
    uint32_t references = 0;  // by records of the run
    bool host = false;
    bool first_is_read = false;
    int region = -1;
  };
  // Open addressing; a slot counts only if its stamp is the current run's.
  struct Slot {
    const Block* block = nullptr;
    uint64_t stamp = 0;
    int32_t index = 0;
  };
  // One access of the run; `write` and `read` as seen from memory.
  struct Access {
    int32_t node;
    uint8_t operand;  // Edge::kWholeNode for host calls
    bool write;
    bool dense;  // covers its interval
    DType dtype;
    uintptr_t low, high;
    int32_t identity;  // equal for accesses to the same elements, -1 for host calls
  };
  struct Region {
    std::vector<Access> history;
    std::vector<Access> distinct;  // one access per identity
  };

  int32_t block_index(Block* block);
  void grow_table();
  void note_blocks(const Window& window, size_t begin, size_t end);
  void find_regions();
  // `operands`: the record's first in operand_blocks_.
  void add_host(const OpRecord& record, int32_t index, size_t operands);
  void add_part(const OpRecord& record, int32_t index, int part, size_t operands);
  void touch(Region& region, const Access& access);
  Access describe(const FormNode& node, int32_t number, size_t operand) const;
  bool same_elements(const Access& a, const Access& b) const;
  int32_t identify(Region& region, const Access& access);
  void add_key(const FormNode& node);
  uint64_t size_class(int64_t size);

  WindowForm form_;
  std::vector<Slot> table_{256};
  uint64_t stamp_ = 0;
  std::vector<BlockState> blocks_;
  std::vector<int32_t> operand_blocks_;  // of all records of the run, inputs first
  std::vector<int32_t> block_order_;     // by address
  std::vector<Region> regions_;
  size_t region_count_ = 0;
  std::vector<int64_t> sizes_;  // distinct sizes in order of appearance
  int32_t next_identity_ = 0;
  int32_t last_host_ = -1;
};

}  // namespace neuron
