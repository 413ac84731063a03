// SPDX-License-Identifier: Apache-2.0
#include "neuron/store/artifact_key.h"

#include <cstdio>
#include <cstring>

namespace neuron {
namespace {

// One 64-bit lane: multiply, then fold the product's halves together.
uint64_t mix(uint64_t a, uint64_t b) {
  unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

Hash128 hash128(std::string_view bytes) {
  constexpr uint64_t kA = 0x9e3779b97f4a7c15, kB = 0xd1b54a32d192ed03, kC = 0x8cb92ba72f3d8dd7;
  uint64_t h = kA ^ bytes.size(), l = kB + bytes.size();
  for (size_t at = 0; at < bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, bytes.size() - at < 8 ? bytes.size() - at : 8);
    h = mix(h ^ word, kC ^ l);
    l = mix(l + word, kA) ^ (h << 1);
  }
  return {mix(h ^ kB, kA), mix(l ^ kC, kB ^ h)};
}

std::string Hash128::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

ArtifactKey::ArtifactKey(std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts) {
    text += std::to_string(part.size());
    text += ':';
    text += part;
    text += '\n';
  }
  hash = hash128(text);
}

}  // namespace neuron
