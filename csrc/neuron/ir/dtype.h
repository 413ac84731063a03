// SPDX-License-Identifier: Apache-2.0
//
// DType: element types of the IR and of tensors at run time. Values are part of stored keys: append
// only, never renumber.
#pragma once

#include <cstddef>
#include <cstdint>

namespace neuron {

enum class DType : uint8_t {
  kBool = 0,
  kUInt8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kBFloat16 = 7,
  kFloat32 = 8,
  kFloat64 = 9,
  kComplex64 = 10,
  kComplex128 = 11,
  kOpaque = 12,  // any other type; only copied or handed to host ops, size kept by the owner
};

// Bytes of one element; 0 for kOpaque.
constexpr size_t element_size(DType t) {
  switch (t) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
      return 1;
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kFloat64:
    case DType::kComplex64:
      return 8;
    case DType::kComplex128:
      return 16;
    case DType::kOpaque:
      return 0;
  }
  return 0;
}

constexpr bool is_floating(DType t) { return t >= DType::kFloat16 && t <= DType::kFloat64; }
constexpr bool is_complex(DType t) { return t == DType::kComplex64 || t == DType::kComplex128; }
constexpr bool is_integral(DType t) { return t <= DType::kInt64; }  // includes bool

// Short names of the IR's text form: "i1", "u8", "i64", "f16", "bf16", "f32", "c64", ...
constexpr const char* name(DType t) {
  constexpr const char* kNames[] = {"i1",  "u8",   "i8",  "i16", "i32", "i64",   "f16",
                                    "bf16", "f32", "f64", "c64", "c128", "opaque"};
  return kNames[static_cast<size_t>(t)];
}

}  // namespace neuron
