// SPDX-License-Identifier: Apache-2.0
//
// Attributes of a lowered operation: 8-byte words, structural ones first (op_table.h says which).
//
//   AttributeWriter a;                                       // x + 0.5, x in bf16
//   a.structural(static_cast<int64_t>(DType::kBFloat16));    // common dtype
//   a.structural(0b10);                                      // operand 1 is a scalar
//   a.value(0.5);
//   request.attributes = a.bytes();                          // valid while `a` lives
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "neuron/base/error.h"

namespace neuron {

class AttributeWriter {
 public:
  static constexpr size_t kMaxWords = 12;

  void structural(int64_t word) { push(static_cast<uint64_t>(word)); }
  void value(double word) { push(std::bit_cast<uint64_t>(word)); }
  void value(int64_t word) { push(static_cast<uint64_t>(word)); }

  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(words_.data(), count_));
  }

 private:
  void push(uint64_t word) {
    NEURON_CHECK(count_ < kMaxWords);
    words_[count_++] = word;
  }

  std::array<uint64_t, kMaxWords> words_;
  size_t count_ = 0;
};

// Word `i` of a record's attributes.
inline uint64_t attribute_word(std::span<const std::byte> attributes, size_t i) {
  uint64_t word;
  std::memcpy(&word, attributes.data() + i * sizeof word, sizeof word);
  return word;
}

inline size_t attribute_count(std::span<const std::byte> attributes) {
  return attributes.size() / sizeof(uint64_t);
}

}  // namespace neuron
