// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/codegen/value_emitter.h"

#include <bit>
#include <limits>

#include "neuron/base/error.h"
#include "neuron/host/kernel_args.h"

namespace neuron::codegen {

using llvm::Constant;
using llvm::ConstantFP;
using llvm::ConstantInt;
using llvm::FixedVectorType;
using llvm::Intrinsic::ID;

Type* ValueEmitter::register_type(DType t, bool vector) const {
  Type* e = nullptr;
  switch (t) {
    case DType::kBool:
      e = b.getInt1Ty();
      break;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
      e = b.getFloatTy();
      break;
    case DType::kFloat64:
      e = b.getDoubleTy();
      break;
    default:
      e = b.getIntNTy(static_cast<unsigned>(8 * element_size(t)));
  }
  return vector ? FixedVectorType::get(e, kLanes) : e;
}

Type* ValueEmitter::memory_type(DType t, bool vector) const {
  if (t == DType::kFloat32 || t == DType::kFloat64) return register_type(t, vector);
  Type* e = b.getIntNTy(static_cast<unsigned>(8 * element_size(t)));
  return vector ? FixedVectorType::get(e, kLanes) : e;
}

Type* ValueEmitter::shaped_type(Value* like, Type* element) const {
  return like->getType()->isVectorTy() ? FixedVectorType::get(element, kLanes) : element;
}

Value* ValueEmitter::shaped(Value* like, Constant* c) const {
  if (!like->getType()->isVectorTy()) return c;
  return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(kLanes), c);
}

Value* ValueEmitter::f32(Value* like, float v) {
  return shaped(like, ConstantFP::get(b.getFloatTy(), llvm::APFloat(v)));
}
Value* ValueEmitter::f64(Value* like, double v) {
  return shaped(like, ConstantFP::get(b.getDoubleTy(), llvm::APFloat(v)));
}
Value* ValueEmitter::integer(Value* like, int bits, int64_t v) {
  return shaped(like, ConstantInt::get(b.getContext(), llvm::APInt(static_cast<unsigned>(bits),
                                                                   static_cast<uint64_t>(v), true,
                                                                   /*implicitTrunc=*/true)));
}
Value* ValueEmitter::i32(Value* like, int64_t v) { return integer(like, 32, v); }
Value* ValueEmitter::i64(Value* like, int64_t v) { return integer(like, 64, v); }

Value* ValueEmitter::to_int_bits(Value* v) {
  unsigned bits = v->getType()->getScalarSizeInBits();
  return b.CreateBitCast(v, shaped_type(v, b.getIntNTy(bits)));
}
Value* ValueEmitter::to_float_bits(Value* v) {
  bool wide = v->getType()->getScalarSizeInBits() == 64;
  return b.CreateBitCast(v, shaped_type(v, wide ? b.getDoubleTy() : b.getFloatTy()));
}

Value* ValueEmitter::fma(Value* x, Value* y, Value* z) {
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

Value* ValueEmitter::copysign(Value* magnitude, Value* sign) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
}

Value* ValueEmitter::constant(DType t, uint64_t bits, bool vector) {
  Constant* c = nullptr;
  auto single = [&](uint32_t u) {
    return ConstantFP::get(b.getContext(),
                           llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, u)));
  };
  switch (t) {
    case DType::kFloat32:
      c = single(static_cast<uint32_t>(bits));
      break;
    case DType::kBFloat16:
      c = single(static_cast<uint32_t>(bits) << 16);
      break;
    case DType::kFloat16: {
      llvm::APFloat half(llvm::APFloat::IEEEhalf(), llvm::APInt(16, bits));
      bool loses = false;
      half.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &loses);
      c = ConstantFP::get(b.getContext(), half);
      break;
    }
    case DType::kFloat64:
      c = ConstantFP::get(b.getContext(),
                          llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, bits)));
      break;
    default:
      c = ConstantInt::get(llvm::cast<llvm::IntegerType>(register_type(t, false)), bits);
  }
  return vector ? llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(kLanes), c) : c;
}

// ---- memory and narrow floats
// --------------------------------------------------------------------

Value* ValueEmitter::from_memory(DType t, Value* raw) {
  switch (t) {
    case DType::kBool:
      return b.CreateICmpNE(raw, Constant::getNullValue(raw->getType()));
    case DType::kBFloat16:
      return to_float_bits(
          b.CreateShl(b.CreateZExt(raw, shaped_type(raw, b.getInt32Ty())), i32(raw, 16)));
    case DType::kFloat16:
      return f16_to_f32(raw);
    default:
      return raw;
  }
}

Value* ValueEmitter::to_memory(DType t, Value* value) {
  switch (t) {
    case DType::kBool:
      return b.CreateZExt(value, shaped_type(value, b.getInt8Ty()));
    case DType::kBFloat16:
      return b.CreateTrunc(b.CreateLShr(to_int_bits(value), i32(value, 16)),
                           shaped_type(value, b.getInt16Ty()));
    case DType::kFloat16:
      return f32_to_f16_bits(value);
    default:
      return value;
  }
}

Value* ValueEmitter::f16_to_f32(Value* bits) {
  if (features_.f16c)
    return b.CreateFPExt(b.CreateBitCast(bits, shaped_type(bits, b.getHalfTy())),
                         shaped_type(bits, b.getFloatTy()));
  // See f16_to_float in half.h.
  Value* u = b.CreateZExt(bits, shaped_type(bits, b.getInt32Ty()));
  Value* sign = b.CreateShl(b.CreateAnd(u, i32(u, 0x8000)), i32(u, 16));
  Value* magnitude = b.CreateAnd(u, i32(u, 0x7fff));
  Value* moved = b.CreateShl(magnitude, i32(u, 13));
  Value* finite = to_int_bits(b.CreateFMul(to_float_bits(moved), f32(u, 0x1p112f)));
  Value* quiet = b.CreateSelect(b.CreateICmpUGT(magnitude, i32(u, 0x7c00)), i32(u, 0x7fc00000),
                                i32(u, 0x7f800000));
  Value* special = b.CreateOr(moved, quiet);
  Value* is_special = b.CreateICmpUGE(magnitude, i32(u, 0x7c00));
  return to_float_bits(b.CreateOr(sign, b.CreateSelect(is_special, special, finite)));
}

Value* ValueEmitter::f32_to_f16_bits(Value* v) {
  Type* half_bits = shaped_type(v, b.getInt16Ty());
  if (features_.f16c)
    return b.CreateBitCast(b.CreateFPTrunc(v, shaped_type(v, b.getHalfTy())), half_bits);
  // See float_to_f16 in half.h.
  Value* u = to_int_bits(v);
  Value* sign = b.CreateAnd(b.CreateLShr(u, i32(u, 16)), i32(u, 0x8000));
  Value* m = b.CreateAnd(u, i32(u, 0x7fffffff));
  Value* odd = b.CreateAnd(b.CreateLShr(m, i32(u, 13)), i32(u, 1));
  Value* normal = b.CreateLShr(
      b.CreateSub(b.CreateAdd(b.CreateAdd(m, i32(u, 0xfff)), odd), i32(u, 0x38000000)), i32(u, 13));
  Value* small =
      b.CreateSub(to_int_bits(b.CreateFAdd(to_float_bits(m), f32(u, 0.5f))), i32(u, 0x3f000000));
  Value* nan = b.CreateOr(b.CreateAnd(b.CreateLShr(m, i32(u, 13)), i32(u, 0x1ff)), i32(u, 0x7e00));
  Value* r = b.CreateSelect(b.CreateICmpULT(m, i32(u, 0x38800000)), small, normal);
  r = b.CreateSelect(b.CreateICmpUGE(m, i32(u, 0x477ff000)), i32(u, 0x7c00), r);
  r = b.CreateSelect(b.CreateICmpUGT(m, i32(u, 0x7f800000)), nan, r);
  return b.CreateTrunc(b.CreateOr(sign, r), half_bits);
}

Value* ValueEmitter::round_to(DType t, Value* v) {
  if (t == DType::kFloat16) return f16_to_f32(f32_to_f16_bits(v));
  if (t != DType::kBFloat16) return v;
  // An integer sequence: the AVX-512 instruction flushes subnormals.
  Value* u = to_int_bits(v);
  Value* odd = b.CreateAnd(b.CreateLShr(u, i32(u, 16)), i32(u, 1));
  Value* rounded = b.CreateAdd(u, b.CreateAdd(odd, i32(u, 0x7fff)));
  Value* quiet = b.CreateOr(u, i32(u, 0x400000));
  return to_float_bits(b.CreateAnd(b.CreateSelect(is_nan(v), quiet, rounded), i32(u, 0xffff0000)));
}

// ---- conversions
// ---------------------------------------------------------------------------------

Value* ValueEmitter::float_to_int(DType to, Value* v) {
  // As x86 converts: what does not fit gives the smallest integer.
  bool wide = to == DType::kInt64;
  bool is_double = v->getType()->getScalarType()->isDoubleTy();
  double limit = wide ? 0x1p63 : 0x1p31;
  Type* type = shaped_type(v, wide ? b.getInt64Ty() : b.getInt32Ty());
  Value* low = is_double ? f64(v, wide ? -limit : -limit - 1) : f32(v, static_cast<float>(-limit));
  Value* high = is_double ? f64(v, limit) : f32(v, static_cast<float>(limit));
  Value* above = wide || !is_double ? b.CreateFCmpOGE(v, low) : b.CreateFCmpOGT(v, low);
  Value* fits = b.CreateAnd(above, b.CreateFCmpOLT(v, high));
  Value* safe = b.CreateSelect(fits, v, Constant::getNullValue(v->getType()));
  Value* smallest = wide ? i64(v, std::numeric_limits<int64_t>::min())
                         : i32(v, std::numeric_limits<int32_t>::min());
  Value* r = b.CreateSelect(fits, b.CreateFPToSI(safe, type), smallest);
  return b.CreateTrunc(r, register_type(to, v->getType()->isVectorTy()));
}

Value* ValueEmitter::cast(DType to, DType from, Value* v) {
  if (to == from) return v;
  bool vector = v->getType()->isVectorTy();
  Type* type = register_type(to, vector);
  if (is_floating(from)) {
    if (to == DType::kBool) return b.CreateFCmpUNE(v, Constant::getNullValue(v->getType()));
    if (is_integral(to)) return float_to_int(to, v);
    if (from == DType::kFloat64 && to != DType::kFloat64) {
      // Through f32, as the CPU does: two roundings.
      return round_to(to, b.CreateFPTrunc(v, shaped_type(v, b.getFloatTy())));
    }
    if (to == DType::kFloat64) return b.CreateFPExt(v, type);
    return is_narrow_float(to) ? round_to(to, v) : v;
  }
  if (to == DType::kBool) return b.CreateICmpNE(v, Constant::getNullValue(v->getType()));
  if (is_integral(to))
    return is_signed(from) ? b.CreateSExtOrTrunc(v, type) : b.CreateZExtOrTrunc(v, type);
  Value* f = is_signed(from) ? b.CreateSIToFP(v, type) : b.CreateUIToFP(v, type);
  return round_to(to, f);
}

Value* ValueEmitter::bitcast(DType to, DType from, Value* v) {
  Value* raw = to_memory(from, v);
  return from_memory(to, b.CreateBitCast(raw, memory_type(to, v->getType()->isVectorTy())));
}

// ---- reductions
// ----------------------------------------------------------------------------------

Value* ValueEmitter::identity(NestOp op, DType t, bool vector) {
  Value* like = zero(t, vector);
  int bits = static_cast<int>(register_type(t, false)->getScalarSizeInBits());
  bool floating = is_floating(t);
  auto number = [&](double v) {
    return t == DType::kFloat64 ? f64(like, v) : f32(like, static_cast<float>(v));
  };
  int64_t low = is_signed(t) ? std::numeric_limits<int64_t>::min() >> (64 - bits) : 0;
  int64_t high = is_signed(t) ? -(low + 1) : -1;
  switch (op) {
    case NestOp::kReduceProd:
    case NestOp::kScanProd:
      return floating ? number(1.0) : integer(like, bits, 1);
    case NestOp::kReduceMax:
    case NestOp::kScanMax:
    case NestOp::kArgMax:
      return floating ? number(-std::numeric_limits<double>::infinity()) : integer(like, bits, low);
    case NestOp::kReduceMin:
    case NestOp::kScanMin:
    case NestOp::kArgMin:
      return floating ? number(std::numeric_limits<double>::infinity()) : integer(like, bits, high);
    case NestOp::kReduceAnd:
      return integer(like, bits, -1);
    default:
      return like;
  }
}

Value* ValueEmitter::combine(NestOp op, DType t, Value* x, Value* y) {
  NestNode node;
  node.dtype = t;
  switch (op) {
    case NestOp::kReduceSum:
    case NestOp::kScanSum:
    case NestOp::kStoreAdd:
      node.op = NestOp::kAdd;
      break;
    case NestOp::kReduceProd:
    case NestOp::kScanProd:
    case NestOp::kStoreMul:
      node.op = NestOp::kMul;
      break;
    case NestOp::kReduceMax:
    case NestOp::kScanMax:
    case NestOp::kStoreMax:
      node.op = NestOp::kMax;
      break;
    case NestOp::kReduceMin:
    case NestOp::kScanMin:
    case NestOp::kStoreMin:
      node.op = NestOp::kMin;
      break;
    case NestOp::kReduceAnd:
      node.op = NestOp::kAnd;
      break;
    case NestOp::kReduceOr:
      node.op = NestOp::kOr;
      break;
    default:
      throw Error(ErrorCode::kInternal, std::string("cannot combine with ") + name(op));
  }
  Value* args[] = {x, y, nullptr};
  return apply(node, t, args);
}

// ---- calls and reports
// ---------------------------------------------------------------------------

Value* ValueEmitter::call_libm(const char* name, llvm::ArrayRef<Value*> args) {
  Type* element = args[0]->getType()->getScalarType();
  llvm::SmallVector<Type*, 3> types(args.size(), element);
  llvm::FunctionCallee f =
      module_.getOrInsertFunction(name, llvm::FunctionType::get(element, types, false));
  llvm::cast<llvm::Function>(f.getCallee())->setDoesNotThrow();
  if (!args[0]->getType()->isVectorTy()) return b.CreateCall(f, args);
  Value* result = llvm::PoisonValue::get(args[0]->getType());
  for (uint64_t lane = 0; lane < kLanes; ++lane) {
    llvm::SmallVector<Value*, 3> scalars;
    for (Value* a : args) scalars.push_back(b.CreateExtractElement(a, lane));
    result = b.CreateInsertElement(result, b.CreateCall(f, scalars), lane);
  }
  return result;
}

void ValueEmitter::report(Value* condition, uint32_t status) {
  if (condition->getType()->isVectorTy()) {
    if (active_ != nullptr) condition = b.CreateAnd(condition, active_);
    condition = b.CreateOrReduce(condition);
  }
  llvm::Function* f = b.GetInsertBlock()->getParent();
  auto* bad = llvm::BasicBlock::Create(b.getContext(), "bad", f);
  auto* next = llvm::BasicBlock::Create(b.getContext(), "next", f);
  b.CreateCondBr(condition, bad, next);
  b.SetInsertPoint(bad);
  b.CreateAtomicRMW(llvm::AtomicRMWInst::Or, status_, b.getInt32(status), llvm::MaybeAlign(4),
                    llvm::AtomicOrdering::Monotonic);
  b.CreateBr(next);
  b.SetInsertPoint(next);
}

Value* ValueEmitter::wrap_index(Value* index, Value* extent) {
  Value* nothing = Constant::getNullValue(index->getType());
  Value* wrapped =
      b.CreateSelect(b.CreateICmpSLT(index, nothing), b.CreateAdd(index, extent), index);
  return check_index(wrapped, extent);
}

Value* ValueEmitter::check_index(Value* index, Value* extent) {
  // Unsigned: negative indices are far above every extent.
  Value* outside = b.CreateICmpUGE(index, extent);
  report(outside, kStatusIndexOutOfRange);
  return b.CreateSelect(outside, Constant::getNullValue(index->getType()), index);
}

Value* ValueEmitter::int_divide(NestOp op, DType t, Value* x, Value* y) {
  Value* nothing = Constant::getNullValue(y->getType());
  Value* by_zero = b.CreateICmpEQ(y, nothing);
  report(by_zero, kStatusDivisionByZero);
  int bits = static_cast<int>(y->getType()->getScalarSizeInBits());
  Value* quotient = nullptr;
  if (bits < 64) {
    // Exact in f64 for all 32-bit values: a fraction is further from an integer than the rounding.
    Type* wide = shaped_type(x, b.getDoubleTy());
    Value* safe = b.CreateSelect(by_zero, integer(y, bits, 1), y);
    Value* q = is_signed(t) ? b.CreateFDiv(b.CreateSIToFP(x, wide), b.CreateSIToFP(safe, wide))
                            : b.CreateFDiv(b.CreateUIToFP(x, wide), b.CreateUIToFP(safe, wide));
    Type* middle = shaped_type(x, bits == 32 ? b.getInt64Ty() : b.getInt32Ty());
    quotient = b.CreateTrunc(b.CreateFPToSI(q, middle), x->getType());
  } else {
    // The quotient by -1 is a negation, which wraps where the instruction would trap.
    Value* by_minus_one = b.CreateICmpEQ(y, i64(y, -1));
    Value* safe = b.CreateSelect(b.CreateOr(by_zero, by_minus_one), i64(y, 1), y);
    quotient = b.CreateSelect(by_minus_one, b.CreateNeg(x), b.CreateSDiv(x, safe));
  }
  Value* remainder = b.CreateSub(x, b.CreateMul(quotient, y));
  Value* inexact = b.CreateICmpNE(remainder, nothing);
  Value* differs = is_signed(t) ? b.CreateICmpSLT(b.CreateXor(remainder, y), nothing)
                                : Constant::getNullValue(inexact->getType());
  Value* adjust = b.CreateAnd(inexact, differs);
  Value* result = nullptr;
  switch (op) {
    case NestOp::kTruncDiv:
      result = quotient;
      break;
    case NestOp::kFloorDiv:
      result = b.CreateSelect(adjust, b.CreateSub(quotient, integer(y, bits, 1)), quotient);
      break;
    case NestOp::kFmod:
      result = remainder;
      break;
    default:
      result = b.CreateSelect(adjust, b.CreateAdd(remainder, y), remainder);
  }
  return b.CreateSelect(by_zero, nothing, result);
}

}  // namespace neuron::codegen
