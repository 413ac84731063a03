// SPDX-License-Identifier: Apache-2.0
//
// Runs a compiled loop nest: work items per phase, cut into chunks by sizes alone, on the intra-op
// pool; scratch memory; and the kernel's status as an error.
//
//   KernelOperands o{.pointers = p, .extents = e, .strides = s};
//   launch(object, analysis, o);
#pragma once

#include <cstdint>
#include <span>

#include "neuron/host/kernel_args.h"
#include "neuron/host/kernel_object.h"
#include "neuron/host/loop_nest_analysis.h"

namespace neuron {

// Arguments of one launch, laid out as in KernelArgs; arrays are only read during the call.
struct KernelOperands {
  std::span<void* const> pointers;           // [operands]
  std::span<const int64_t> extents;          // [rank]
  std::span<const int64_t> strides;          // [operands x rank], in elements
  std::span<const int64_t> index_strides{};  // [operands], empty: offsets are in elements
  std::span<const uint64_t> scalars{};       // [scalars], bits in the low bytes
};

// Runs all phases and returns when they are done. Throws kInvalidArgument for a wrong number of
// arguments, kOutOfRange for an index out of range, kExecution for an integer division by zero (all
// other elements are computed then). Thread-safe; uses the pool of IntraOpPool::instance().
void launch(const KernelObject& object, const NestAnalysis& analysis,
            const KernelOperands& operands);

// kHorizontal: `operands` holds pointers [items x operands], extents [items] (elements), and
// scalars [items x scalars]; strides are not used.
void launch_horizontal(const KernelObject& object, const NestAnalysis& analysis,
                       const KernelOperands& operands);

}  // namespace neuron
