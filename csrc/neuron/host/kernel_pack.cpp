// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/kernel_pack.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "neuron/base/error.h"
#include "neuron/host/kernel_cache.h"
#include "neuron/host/kernel_compiler.h"
#include "neuron/store/artifact_pack.h"

namespace neuron {

const std::vector<FeatureLevel>& feature_levels() {
  static const std::vector<FeatureLevel> kLevels = {
      {"avx512", kFeaturesAvx512}, {"avx2", kFeaturesAvx2}, {"baseline", ""}};
  return kLevels;
}

std::string kernel_pack_name(std::string_view features) {
  for (const FeatureLevel& level : feature_levels()) {
    if (features == level.features) return std::string(level.name) + ".pack";
  }
  return "";
}

KernelPackReport build_kernel_pack(const std::vector<LoopNest>& nests, const std::string& features,
                                   const std::string& path) {
  KernelCompiler& compiler = KernelCompiler::instance();
  const std::string build_id = compiler.build_id();
  ArtifactPack earlier(path);
  KernelPackReport report;
  std::vector<std::pair<ArtifactKey, std::string>> objects;
  objects.reserve(nests.size());
  for (const LoopNest& nest : nests) {
    const std::string text = to_text(nest);
    ArtifactKey key = kernel_key(text, build_id, features);
    std::optional<std::string> object = earlier.load(key);
    ++(object ? report.kept : report.compiled);
    if (!object) {
      try {
        object = compiler.compile(text, features);
      } catch (const Error& e) {
        throw Error(e.code(), e.message() + "\nin\n" + text);
      }
    }
    objects.emplace_back(std::move(key), std::move(*object));
  }
  // No kernels and no pack look alike.
  report.changed = report.compiled > 0 || earlier.size() != objects.size() || objects.empty();
  if (report.changed && !write_artifact_pack(path, std::move(objects))) {
    throw Error(ErrorCode::kExecution, "cannot write " + path + ": " + std::strerror(errno));
  }
  report.file_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  return report;
}

}  // namespace neuron
