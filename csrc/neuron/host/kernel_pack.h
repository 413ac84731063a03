// SPDX-License-Identifier: Apache-2.0
//
// Kernel packs: the shipped level of the kernel store, one file for each level of instruction sets,
// in the directory `kernels/` beside the code generator. The build writes them
// (tools/kernels/build_packs.cpp), KernelCache reads the one of its processor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "neuron/host/loop_nest.h"

namespace neuron {

// One of the lists of target features that host_features() returns, by its name.
struct FeatureLevel {
  const char* name;  // "avx512", "avx2", "baseline"
  const char* features;
};
const std::vector<FeatureLevel>& feature_levels();

// "avx512.pack"; empty for a list that is no level.
std::string kernel_pack_name(std::string_view features);

struct KernelPackReport {
  int64_t compiled = 0;
  int64_t kept = 0;  // of an earlier file, made by the same code generator
  int64_t file_bytes = 0;
  bool changed = false;  // the file was written
};

// Makes the pack at `path` hold exactly the kernels of `nests`, compiled by KernelCompiler. A pack
// that does already is left alone. Throws what the compiler throws, or kExecution if the file
// cannot be written; `path` is then as it was.
KernelPackReport build_kernel_pack(const std::vector<LoopNest>& nests, const std::string& features,
                                   const std::string& path);

}  // namespace neuron
