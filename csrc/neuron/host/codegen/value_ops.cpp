// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic of the nodes: dispatch by dtype family, and what is not in math_emitter.
#include "neuron/base/error.h"
#include "neuron/host/codegen/math_emitter.h"
#include "neuron/host/codegen/value_emitter.h"
#include "neuron/host/kernel_args.h"

namespace neuron::codegen {

using llvm::Constant;
namespace Intrinsic = llvm::Intrinsic;

namespace {

[[noreturn]] void unsupported(NestOp op, DType t) {
  throw Error(ErrorCode::kUnsupported, std::string("no code for ") + name(op) + " of " + name(t));
}

}  // namespace

Value* ValueEmitter::apply(const NestNode& node, DType argument, Value* const* args) {
  switch (node.op) {
    case NestOp::kCast:
      return cast(node.dtype, argument, args[0]);
    case NestOp::kBitcast:
      return bitcast(node.dtype, argument, args[0]);
    case NestOp::kSelect:
      return b.CreateSelect(args[0], args[1], args[2]);
    case NestOp::kFma:
      return fma(args[0], args[1], args[2]);
    case NestOp::kPhilox:
      return philox(args[0], args[1], args[2], node.attr);
    case NestOp::kWrapIndex:
      return wrap_index(args[0], args[1]);
    case NestOp::kCheckIndex:
      return check_index(args[0], args[1]);
    default:
      break;
  }
  if (op_class(node.op) == NestOpClass::kCompare)
    return compare(node.op, argument, args[0], args[1]);
  bool unary = op_class(node.op) == NestOpClass::kUnary;
  if (is_floating(node.dtype)) {
    Value* r = unary ? float_unary(node.op, node.dtype, args[0])
                     : float_binary(node.op, node.dtype, args[0], args[1]);
    return round_to(node.dtype, r);
  }
  return unary ? int_unary(node.op, node.dtype, args[0])
               : int_binary(node.op, node.dtype, args[0], args[1]);
}

Value* ValueEmitter::compare(NestOp op, DType t, Value* x, Value* y) {
  using P = llvm::CmpInst::Predicate;
  bool floating = is_floating(t), sign = is_signed(t);
  P p = P::ICMP_EQ;
  switch (op) {
    case NestOp::kEq:
      p = floating ? P::FCMP_OEQ : P::ICMP_EQ;
      break;
    case NestOp::kNe:
      p = floating ? P::FCMP_UNE : P::ICMP_NE;
      break;
    case NestOp::kLt:
      p = floating ? P::FCMP_OLT : sign ? P::ICMP_SLT : P::ICMP_ULT;
      break;
    case NestOp::kLe:
      p = floating ? P::FCMP_OLE : sign ? P::ICMP_SLE : P::ICMP_ULE;
      break;
    case NestOp::kGt:
      p = floating ? P::FCMP_OGT : sign ? P::ICMP_SGT : P::ICMP_UGT;
      break;
    default:
      p = floating ? P::FCMP_OGE : sign ? P::ICMP_SGE : P::ICMP_UGE;
  }
  return b.CreateCmp(p, x, y);
}

Value* ValueEmitter::float_max(Value* x, Value* y, bool max) {
  // NaN wins: first the comparison, then x where x is NaN; y where y is NaN since it fails.
  Value* first = max ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y);
  return b.CreateSelect(b.CreateOr(first, is_nan(x)), x, y);
}

Value* ValueEmitter::float_unary(NestOp op, DType t, Value* x) {
  Constant* nothing = Constant::getNullValue(x->getType());
  bool wide = t == DType::kFloat64;
  Value* one = wide ? f64(x, 1.0) : f32(x, 1.0f);
  switch (op) {
    case NestOp::kNeg:
      return b.CreateFNeg(x);
    case NestOp::kAbs:
      return abs(x);
    case NestOp::kSign: {
      Value* positive = b.CreateSelect(b.CreateFCmpOGT(x, nothing), one, nothing);
      return b.CreateSelect(b.CreateFCmpOLT(x, nothing), b.CreateFNeg(one), positive);
    }
    case NestOp::kFloor:
      return MathEmitter(*this).round(Intrinsic::floor, x);
    case NestOp::kCeil:
      return MathEmitter(*this).round(Intrinsic::ceil, x);
    case NestOp::kRound:
      return MathEmitter(*this).round(Intrinsic::roundeven, x);
    case NestOp::kTrunc:
      return MathEmitter(*this).round(Intrinsic::trunc, x);
    case NestOp::kSqrt:
      return unary_intrinsic(Intrinsic::sqrt, x);
    case NestOp::kRsqrt:
      return b.CreateFDiv(one, unary_intrinsic(Intrinsic::sqrt, x));
    case NestOp::kReciprocal:
      return b.CreateFDiv(one, x);
    default:
      break;
  }
  MathEmitter math(*this);
  Value* r = wide ? math.unary64(op, x) : math.unary32(op, x);
  if (r == nullptr) unsupported(op, t);
  return r;
}

Value* ValueEmitter::float_remainder(Value* x, Value* y) {
  Constant* nothing = Constant::getNullValue(x->getType());
  Value* r = call_libm(x->getType()->getScalarType()->isDoubleTy() ? "fmod" : "fmodf", {x, y});
  Value* differs = b.CreateXor(b.CreateFCmpOLT(r, nothing), b.CreateFCmpOLT(y, nothing));
  Value* adjust = b.CreateAnd(b.CreateFCmpUNE(r, nothing), differs);
  return b.CreateSelect(adjust, b.CreateFAdd(r, y), r);
}

// Python's floor division, in the steps that PyTorch takes.
Value* ValueEmitter::float_divide_floor(Value* x, Value* y) {
  bool wide = x->getType()->getScalarType()->isDoubleTy();
  auto number = [&](double v) { return wide ? f64(x, v) : f32(x, static_cast<float>(v)); };
  Constant* nothing = Constant::getNullValue(x->getType());
  Value* m = call_libm(wide ? "fmod" : "fmodf", {x, y});
  Value* quotient = b.CreateFDiv(b.CreateFSub(x, m), y);
  Value* differs = b.CreateXor(b.CreateFCmpOLT(m, nothing), b.CreateFCmpOLT(y, nothing));
  Value* adjust = b.CreateAnd(b.CreateFCmpUNE(m, nothing), differs);
  quotient = b.CreateSelect(adjust, b.CreateFSub(quotient, number(1)), quotient);
  Value* low = MathEmitter(*this).round(Intrinsic::floor, quotient);
  Value* up = b.CreateFCmpOGT(b.CreateFSub(quotient, low), number(0.5));
  Value* nearest = b.CreateSelect(up, b.CreateFAdd(low, number(1)), low);
  Value* plain = b.CreateFDiv(x, y);
  Value* result =
      b.CreateSelect(b.CreateFCmpUNE(quotient, nothing), nearest, copysign(nothing, plain));
  return b.CreateSelect(b.CreateFCmpOEQ(y, nothing), plain, result);
}

Value* ValueEmitter::next_after(Value* x, Value* y) {
  Value* u = to_int_bits(x);
  int bits = static_cast<int>(u->getType()->getScalarSizeInBits());
  Constant* nothing = Constant::getNullValue(x->getType());
  // Away from zero the bits grow.
  Value* away = b.CreateICmpEQ(b.CreateFCmpOLT(x, y), b.CreateFCmpOGT(x, nothing));
  Value* step = b.CreateSelect(away, integer(u, bits, 1), integer(u, bits, -1));
  Value* moved = to_float_bits(b.CreateAdd(u, step));
  Value* tiny = copysign(to_float_bits(integer(u, bits, 1)), y);
  Value* r = b.CreateSelect(b.CreateFCmpOEQ(x, nothing), tiny, moved);
  r = b.CreateSelect(b.CreateFCmpOEQ(x, y), y, r);
  Value* nan = b.CreateFAdd(x, y);
  return b.CreateSelect(is_nan(nan), b.CreateSelect(b.CreateFCmpUNO(x, y), nan, r), r);
}

Value* ValueEmitter::float_binary(NestOp op, DType t, Value* x, Value* y) {
  bool wide = t == DType::kFloat64;
  MathEmitter math(*this);
  switch (op) {
    case NestOp::kAdd:
      return b.CreateFAdd(x, y);
    case NestOp::kSub:
      return b.CreateFSub(x, y);
    case NestOp::kMul:
      return b.CreateFMul(x, y);
    case NestOp::kDiv:
      return b.CreateFDiv(x, y);
    case NestOp::kTruncDiv:
      return math.round(Intrinsic::trunc, round_to(t, b.CreateFDiv(x, y)));
    case NestOp::kFloorDiv:
      return float_divide_floor(x, y);
    case NestOp::kFmod:
      return call_libm(wide ? "fmod" : "fmodf", {x, y});
    case NestOp::kRemainder:
      return float_remainder(x, y);
    case NestOp::kMax:
      return float_max(x, y, true);
    case NestOp::kMin:
      return float_max(x, y, false);
    case NestOp::kFmax:
      return b.CreateSelect(b.CreateOr(b.CreateFCmpOGT(x, y), is_nan(y)), x, y);
    case NestOp::kFmin:
      return b.CreateSelect(b.CreateOr(b.CreateFCmpOLT(x, y), is_nan(y)), x, y);
    case NestOp::kCopysign:
      return copysign(x, y);
    case NestOp::kPow:
      return wide ? call_libm("pow", {x, y}) : math.pow32(x, y);
    case NestOp::kAtan2:
      return wide ? call_libm("atan2", {x, y}) : math.atan2_32(x, y);
    case NestOp::kHypot:
      return wide ? call_libm("hypot", {x, y}) : math.hypot32(x, y);
    case NestOp::kNextAfter:
      if (is_narrow_float(t)) unsupported(op, t);
      return next_after(x, y);
    default:
      unsupported(op, t);
  }
}

Value* ValueEmitter::int_unary(NestOp op, DType t, Value* x) {
  Constant* nothing = Constant::getNullValue(x->getType());
  int bits = static_cast<int>(x->getType()->getScalarSizeInBits());
  switch (op) {
    case NestOp::kNeg:
      return b.CreateNeg(x);
    case NestOp::kNot:
      return b.CreateNot(x);
    case NestOp::kAbs:
      return is_signed(t) ? b.CreateSelect(b.CreateICmpSLT(x, nothing), b.CreateNeg(x), x) : x;
    case NestOp::kSign: {
      Value* positive = b.CreateSelect(b.CreateICmpEQ(x, nothing), nothing, integer(x, bits, 1));
      if (!is_signed(t)) return positive;
      return b.CreateSelect(b.CreateICmpSLT(x, nothing), integer(x, bits, -1), positive);
    }
    default:
      unsupported(op, t);
  }
}

Value* ValueEmitter::int_binary(NestOp op, DType t, Value* x, Value* y) {
  bool logical = t == DType::kBool, sign = is_signed(t);
  int bits = static_cast<int>(x->getType()->getScalarSizeInBits());
  switch (op) {
    case NestOp::kAdd:
      return logical ? b.CreateOr(x, y) : b.CreateAdd(x, y);
    case NestOp::kSub:
      return b.CreateSub(x, y);
    case NestOp::kMul:
      return logical ? b.CreateAnd(x, y) : b.CreateMul(x, y);
    case NestOp::kTruncDiv:
    case NestOp::kFloorDiv:
    case NestOp::kFmod:
    case NestOp::kRemainder:
      return int_divide(op, t, x, y);
    case NestOp::kMax:
      if (logical) return b.CreateOr(x, y);
      return b.CreateSelect(sign ? b.CreateICmpSGT(x, y) : b.CreateICmpUGT(x, y), x, y);
    case NestOp::kMin:
      if (logical) return b.CreateAnd(x, y);
      return b.CreateSelect(sign ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y), x, y);
    case NestOp::kAnd:
      return b.CreateAnd(x, y);
    case NestOp::kOr:
      return b.CreateOr(x, y);
    case NestOp::kXor:
      return b.CreateXor(x, y);
    case NestOp::kShl:
    case NestOp::kShr: {
      Value* inside = b.CreateICmpULT(y, integer(y, bits, bits));
      Value* count = b.CreateSelect(inside, y, integer(y, bits, 0));
      if (op == NestOp::kShl)
        return b.CreateSelect(inside, b.CreateShl(x, count), integer(x, bits, 0));
      if (!sign) return b.CreateSelect(inside, b.CreateLShr(x, count), integer(x, bits, 0));
      return b.CreateAShr(x, b.CreateSelect(inside, y, integer(y, bits, bits - 1)));
    }
    default:
      unsupported(op, t);
  }
}

Value* ValueEmitter::philox(Value* key, Value* low, Value* high, int word) {
  bool vector = low->getType()->isVectorTy();
  Type* narrow = register_type(DType::kInt32, vector);
  Type* wide = register_type(DType::kInt64, vector);
  auto low_word = [&](Value* v) { return b.CreateTrunc(v, narrow); };
  auto high_word = [&](Value* v) { return b.CreateTrunc(b.CreateLShr(v, i64(v, 32)), narrow); };
  auto product = [&](Value* v, uint32_t m) {
    return b.CreateMul(b.CreateZExt(v, wide), i64(v, static_cast<int64_t>(m)));
  };
  Value* c[4] = {low_word(low), high_word(low), low_word(high), high_word(high)};
  Value* k0 = low_word(key);
  Value* k1 = high_word(key);
  for (int round = 0; round < 10; ++round) {
    Value* p0 = product(c[0], 0xD2511F53u);
    Value* p1 = product(c[2], 0xCD9E8D57u);
    Value* n0 = b.CreateXor(b.CreateXor(high_word(p1), c[1]), k0);
    Value* n2 = b.CreateXor(b.CreateXor(high_word(p0), c[3]), k1);
    c[0] = n0;
    c[1] = low_word(p1);
    c[2] = n2;
    c[3] = low_word(p0);
    k0 = b.CreateAdd(k0, i32(k0, 0x9E3779B9));
    k1 = b.CreateAdd(k1, i32(k1, 0xBB67AE85));
  }
  return c[word];
}

}  // namespace neuron::codegen
