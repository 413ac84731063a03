// SPDX-License-Identifier: Apache-2.0
//
// ValueEmitter: LLVM IR for the values of a loop nest: types, constants, conversions, arithmetic.
//
// Every function works on a scalar or on a vector of 16 lanes alike; arguments of one call have the
// same shape. Register forms: f32 and f64 as they are; bf16 and f16 as f32 that holds a value of
// the narrow type; integers as iN (signedness is in the DType); bool as i1. No fast-math flag is
// ever set, and nothing here depends on the target features except through instructions that give
// the same bits.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "neuron/host/loop_nest.h"

namespace neuron::codegen {

using llvm::Type;
using llvm::Value;

struct TargetFeatures {
  bool avx512 = false;  // F, BW, DQ, VL: masked instructions for every element size
  bool f16c = false;
};

class ValueEmitter {
 public:
  ValueEmitter(llvm::IRBuilder<>& builder, llvm::Module& module, TargetFeatures features)
      : b(builder), module_(module), features_(features) {}

  // Status word of the running kernel; set before integer division or kWrapIndex is emitted.
  void set_status(Value* pointer) { status_ = pointer; }
  // Lanes that count for status reports; null: all.
  void set_active(Value* mask) { active_ = mask; }

  Type* register_type(DType t, bool vector) const;
  Type* memory_type(DType t, bool vector) const;
  Value* from_memory(DType t, Value* raw);
  Value* to_memory(DType t, Value* value);

  Value* constant(DType t, uint64_t bits, bool vector);
  Value* zero(DType t, bool vector) {
    return llvm::Constant::getNullValue(register_type(t, vector));
  }
  Value* splat(Value* scalar) { return b.CreateVectorSplat(16, scalar); }

  Value* cast(DType to, DType from, Value* v);
  Value* bitcast(DType to, DType from, Value* v);
  // The value of `v` (an f32) in the narrow type's precision.
  Value* round_to(DType t, Value* v);

  // Result of a unary, binary, compare or select node whose arguments are given.
  Value* apply(const NestNode& node, DType argument, Value* const* args);
  // a op b for reductions, scans and combining stores.
  Value* combine(NestOp op, DType t, Value* a, Value* b);
  // Neutral element of a reduction; the first candidate of arg reductions.
  Value* identity(NestOp op, DType t, bool vector);
  Value* philox(Value* key, Value* low, Value* high, int word);

  // Building blocks that the math functions share. `like` gives the shape.
  Value* f32(Value* like, float v);
  Value* f64(Value* like, double v);
  Value* i32(Value* like, int64_t v);
  Value* i64(Value* like, int64_t v);
  Value* integer(Value* like, int bits, int64_t v);
  Value* to_int_bits(Value* v);
  Value* to_float_bits(Value* v);
  Value* fma(Value* x, Value* y, Value* z);
  Value* unary_intrinsic(llvm::Intrinsic::ID id, Value* v) { return b.CreateUnaryIntrinsic(id, v); }
  Value* is_nan(Value* v) { return b.CreateFCmpUNO(v, v); }
  Value* abs(Value* v) { return unary_intrinsic(llvm::Intrinsic::fabs, v); }
  Value* copysign(Value* magnitude, Value* sign);
  // A libm function of doubles or floats by name, lane by lane.
  Value* call_libm(const char* name, llvm::ArrayRef<Value*> args);

  const TargetFeatures& features() const { return features_; }

  llvm::IRBuilder<>& b;

 private:
  Value* shaped(Value* like, llvm::Constant* c) const;
  Type* shaped_type(Value* like, Type* element) const;
  Value* float_binary(NestOp op, DType t, Value* x, Value* y);
  Value* int_binary(NestOp op, DType t, Value* x, Value* y);
  Value* int_unary(NestOp op, DType t, Value* x);
  Value* float_unary(NestOp op, DType t, Value* x);
  Value* compare(NestOp op, DType t, Value* x, Value* y);
  Value* int_divide(NestOp op, DType t, Value* x, Value* y);
  Value* float_divide_floor(Value* x, Value* y);
  Value* float_remainder(Value* x, Value* y);
  Value* float_max(Value* x, Value* y, bool max);
  Value* wrap_index(Value* index, Value* extent);
  Value* check_index(Value* index, Value* extent);
  Value* next_after(Value* x, Value* y);
  Value* f16_to_f32(Value* bits);
  Value* f32_to_f16_bits(Value* v);
  Value* float_to_int(DType to, Value* v);
  void report(Value* condition, uint32_t status);

  llvm::Module& module_;
  TargetFeatures features_;
  Value* status_ = nullptr;
  Value* active_ = nullptr;
};

// True if the dtype's register form is an f32 that must be rounded after each op.
inline bool is_narrow_float(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }
inline bool is_signed(DType t) { return t != DType::kUInt8 && t != DType::kBool; }

}  // namespace neuron::codegen
