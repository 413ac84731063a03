// SPDX-License-Identifier: Apache-2.0
//
// The calling convention of generated kernels, shared by the code generator and the launcher. Part
// of the store's key through kKernelAbi: raise it with every change.
//
// A kernel has one or two entries of type KernelEntry. An entry computes the work items
// [begin, end) of its phase; items are independent, so any split among threads gives the same bits.
// kSplit and kColumn have a second phase that combines the partial results of the first, which lie
// in `scratch`; it must start after the first has finished.
#pragma once

#include <cstdint>

namespace neuron {

constexpr int kKernelAbi = 1;

struct KernelArgs {
  // One address per operand. kHorizontal: `operands` addresses per table item.
  void* const* pointers;
  const int64_t* extents;        // [rank]; kHorizontal: elements of each table item
  const int64_t* strides;        // [operands][rank], in elements
  const int64_t* index_strides;  // [operands], elements per unit of a load's or store's offset
  const uint64_t* scalars;       // bits in the low bytes; kHorizontal: `scalars` per table item
  // kRow, kSequential: row buffers of the calling thread; kSplit, kColumn: partial results.
  void* scratch;
  const int64_t* chunks;  // kHorizontal: (item, first element) per work item
  uint32_t* status;       // bits of KernelStatus are or-ed in
};

using KernelEntry = void (*)(const KernelArgs* args, int64_t begin, int64_t end);

enum KernelStatus : uint32_t {
  kStatusIndexOutOfRange = 1,
  kStatusDivisionByZero = 2,
};

// Sizes that results depend on; changing one changes bits.
constexpr int kLanes = 16;             // logical vector width
constexpr int kAccumulators = 4;       // per reduction, used in turn
constexpr int64_t kRowChunk = 4096;    // elements of a row reduced before folding (kRow, kSplit)
constexpr int64_t kColumnChunk = 128;  // rows reduced before folding (kColumn, kSequential)
// Sizes that only shape the work.
constexpr int64_t kColumnBlock = 1024;       // columns of one kColumn work item
constexpr int64_t kSequentialBlock = 64;     // columns of one kSequential work item
constexpr int64_t kHorizontalChunk = 16384;  // elements of one kHorizontal work item

// Symbol names of the two phases in an object.
inline constexpr const char* kEntryNames[2] = {"neuron_kernel_0", "neuron_kernel_1"};

}  // namespace neuron
