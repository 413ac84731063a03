// SPDX-License-Identifier: Apache-2.0
//
// build_packs LIBRARY DIRECTORY LEVEL...: writes the shipped kernels (eager/shipped_kernels.h) of
// the named instruction set levels, compiled by libneuron_codegen.so, as DIRECTORY/LEVEL.pack.
// "native" is the level of this processor. The baseline gets no kernels of half precision: they are
// two thirds of its size, and few processors lack AVX2. Kernels that the same code
// generator has made before are kept, so a change elsewhere costs a second.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "neuron/base/error.h"
#include "neuron/eager/shipped_kernels.h"
#include "neuron/host/kernel_compiler.h"
#include "neuron/host/kernel_pack.h"

namespace {

neuron::FeatureLevel find_level(const std::string& name) {
  for (const neuron::FeatureLevel& level : neuron::feature_levels()) {
    if (name == level.name || (name == "native" && neuron::host_features() == level.features)) {
      return level;
    }
  }
  throw neuron::Error(neuron::ErrorCode::kInvalidArgument, "unknown level " + name);
}

std::vector<neuron::LoopNest> without_half_precision(std::vector<neuron::LoopNest> nests) {
  std::erase_if(nests, [](const neuron::LoopNest& nest) {
    return std::ranges::any_of(nest.operands, [](const neuron::NestOperand& o) {
      return o.dtype == neuron::DType::kFloat16 || o.dtype == neuron::DType::kBFloat16;
    });
  });
  return nests;
}

void build(int argc, char** argv) {
  neuron::KernelCompiler::instance().set_library_path(argv[1]);
  const std::string directory = argv[2];
  std::filesystem::create_directories(directory);
  const std::vector<neuron::LoopNest> all = neuron::shipped_kernels();
  for (int i = 3; i < argc; ++i) {
    const neuron::FeatureLevel level = find_level(argv[i]);
    const bool baseline = *level.features == '\0';
    const std::vector<neuron::LoopNest> nests = baseline ? without_half_precision(all) : all;
    const auto start = std::chrono::steady_clock::now();
    const neuron::KernelPackReport report = neuron::build_kernel_pack(
        nests, level.features, directory + "/" + neuron::kernel_pack_name(level.features));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%s: %zu kernels, %lld compiled in %.1f s, %.1f MB\n", level.name, nests.size(),
                static_cast<long long>(report.compiled), seconds.count(),
                static_cast<double>(report.file_bytes) / 1e6);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s LIBRARY DIRECTORY LEVEL...\n", argv[0]);
    return 2;
  }
  try {
    build(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
}
