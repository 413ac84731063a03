// SPDX-License-Identifier: Apache-2.0
//
// Conversions between float and the two 16-bit formats, as kernels do them: round to nearest even,
// subnormals kept, NaN quieted with its sign and upper payload bits.
#pragma once

#include <bit>
#include <cstdint>

namespace neuron {

constexpr float bf16_to_float(uint16_t b) {
  return std::bit_cast<float>(static_cast<uint32_t>(b) << 16);
}

constexpr uint16_t float_to_bf16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

constexpr float f16_to_float(uint16_t h) {
  uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  uint32_t magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity, NaN
    uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude << 13) | quiet);
  }
  // Exponent and mantissa moved into float's place are short of 2^112; the product is exact.
  float value = std::bit_cast<float>(magnitude << 13) * std::bit_cast<float>(0x77800000u);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

constexpr uint16_t float_to_f16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  uint32_t sign = (u >> 16) & 0x8000u;
  uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded value in the low bits
    uint32_t sum = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f);
    return static_cast<uint16_t>(sign | (sum - 0x3f000000u));
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

}  // namespace neuron
