// SPDX-License-Identifier: Apache-2.0
//
// ArtifactKey: what an artifact was made from, as text, and a 128-bit hash of it that names its
// file. A hit compares the whole text: two keys with one hash are a miss, never a wrong artifact.
//
//   ArtifactKey key({to_text(nest), build_id, features});
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace neuron {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
  std::string hex() const;  // 32 digits
};

// Stable over processes and versions; not cryptographic.
Hash128 hash128(std::string_view bytes);

struct ArtifactKey {
  ArtifactKey() = default;
  // Parts are joined unambiguously.
  explicit ArtifactKey(std::initializer_list<std::string_view> parts);

  std::string text;
  Hash128 hash;
};

}  // namespace neuron
