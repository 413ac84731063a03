// SPDX-License-Identifier: Apache-2.0
//
// Trigonometric functions of floats, evaluated in double.
#include <limits>

#include "neuron/host/codegen/math_emitter.h"
#include "neuron/host/codegen/polynomials.h"
#include "neuron/host/kernel_args.h"

namespace neuron::codegen {

namespace {

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kHalfPiHigh = 0x1.921fb54442d18p0;
constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;
constexpr double kPi = 0x1.921fb54442d18p1;
constexpr double kMagic = 0x1.8p52;
constexpr float kLargeArgument = 0x1p23f;

llvm::Constant* table(llvm::LLVMContext& context, const double* values, size_t count) {
  return llvm::ConstantDataArray::get(context, llvm::ArrayRef<double>(values, count));
}

}  // namespace

Value* MathEmitter::trigonometric(NestOp op, Value* x32) {
  Value* x = widen(x32);
  // |x| < 2^23: n = x 2/pi is exact as an integer, and fma leaves x - n pi/2 with one rounding.
  Value* t = v_.fma(x, v_.f64(x, kTwoOverPi), v_.f64(x, kMagic));
  Value* n = b_.CreateFSub(t, v_.f64(x, kMagic));
  Value* r = v_.fma(n, v_.f64(x, -kHalfPiHigh), x);
  r = v_.fma(n, v_.f64(x, -kHalfPiLow), r);
  Value* quadrant = v_.to_int_bits(t);

  Value* large = b_.CreateFCmpUGE(v_.abs(x32), v_.f32(x32, kLargeArgument));
  Value* any = large->getType()->isVectorTy() ? b_.CreateOrReduce(large) : large;
  llvm::Function* f = b_.GetInsertBlock()->getParent();
  auto* before = b_.GetInsertBlock();
  auto* rare = llvm::BasicBlock::Create(b_.getContext(), "large", f);
  auto* next = llvm::BasicBlock::Create(b_.getContext(), "reduced", f);
  b_.CreateCondBr(any, rare, next);
  b_.SetInsertPoint(rare);
  Value *r_large = nullptr, *quadrant_large = nullptr;
  reduce_large(x32, &r_large, &quadrant_large);
  Value* r_mixed = b_.CreateSelect(large, r_large, r);
  Value* quadrant_mixed = b_.CreateSelect(large, quadrant_large, quadrant);
  auto* rare_end = b_.GetInsertBlock();
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  llvm::PHINode* r_phi = b_.CreatePHI(r->getType(), 2);
  r_phi->addIncoming(r, before);
  r_phi->addIncoming(r_mixed, rare_end);
  llvm::PHINode* q_phi = b_.CreatePHI(quadrant->getType(), 2);
  q_phi->addIncoming(quadrant, before);
  q_phi->addIncoming(quadrant_mixed, rare_end);

  // The polynomials lose the sign of a zero.
  auto keep_zero = [&](Value* result) {
    return b_.CreateSelect(b_.CreateFCmpOEQ(x32, v_.f32(x32, 0.0f)), x32, result);
  };
  WideSinCos sc = sin_cos(r_phi, q_phi);
  Value* odd =
      b_.CreateICmpNE(b_.CreateAnd(sc.quadrant, v_.i64(sc.quadrant, 1)), v_.i64(sc.quadrant, 0));
  if (op == NestOp::kTan) {
    Value* top = b_.CreateSelect(odd, b_.CreateFNeg(sc.cos), sc.sin);
    return keep_zero(narrow(b_.CreateFDiv(top, b_.CreateSelect(odd, sc.sin, sc.cos))));
  }
  bool is_sin = op == NestOp::kSin;
  Value* value =
      is_sin ? b_.CreateSelect(odd, sc.cos, sc.sin) : b_.CreateSelect(odd, sc.sin, sc.cos);
  Value* turn = is_sin ? sc.quadrant : b_.CreateAdd(sc.quadrant, v_.i64(sc.quadrant, 1));
  Value* flip = b_.CreateShl(b_.CreateAnd(turn, v_.i64(turn, 2)), v_.i64(turn, 62));
  Value* r32 = narrow(v_.to_float_bits(b_.CreateXor(v_.to_int_bits(value), flip)));
  return is_sin ? keep_zero(r32) : r32;
}

void MathEmitter::reduce_large(Value* x32, Value** r, Value** quadrant) {
  // x = m 2^k with a 24-bit m; m (2^k mod 2 pi) differs from x by full turns and is below 2^27.
  llvm::LLVMContext& context = b_.getContext();
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  bool vector = x32->getType()->isVectorTy();
  Type* wide = v_.register_type(DType::kFloat64, vector);
  Value* u = v_.to_int_bits(x32);
  Value* k =
      b_.CreateSub(b_.CreateAnd(b_.CreateLShr(u, v_.i32(u, 23)), v_.i32(u, 255)), v_.i32(u, 150));
  // Lanes with small arguments, infinity and NaN read some entry; the caller and the end fix them.
  Value* inside =
      b_.CreateAnd(b_.CreateICmpSGE(k, v_.i32(u, 0)), b_.CreateICmpSLE(k, v_.i32(u, 104)));
  k = b_.CreateSelect(inside, k, v_.i32(u, 0));
  Value* bits = b_.CreateOr(b_.CreateAnd(u, v_.i32(u, 0x7fffff)), v_.i32(u, 0x800000));
  Value* m = b_.CreateSIToFP(bits, wide);
  m = v_.copysign(m, widen(x32));
  auto look_up = [&](const char* name, const double* values, size_t count) -> Value* {
    llvm::Constant* data = table(context, values, count);
    llvm::GlobalVariable* g = module->getGlobalVariable(name, true);
    if (g == nullptr)
      g = new llvm::GlobalVariable(*module, data->getType(), true,
                                   llvm::GlobalValue::PrivateLinkage, data, name);
    Value* address = b_.CreateGEP(b_.getDoubleTy(), g,
                                  b_.CreateSExt(k, v_.register_type(DType::kInt64, vector)));
    if (!vector) return b_.CreateLoad(b_.getDoubleTy(), address);
    return b_.CreateMaskedGather(wide, address, llvm::Align(8));
  };
  Value* high = look_up("power_high", kPowerMod2PiHigh, std::size(kPowerMod2PiHigh));
  Value* low = look_up("power_low", kPowerMod2PiLow, std::size(kPowerMod2PiLow));
  Value* turn = b_.CreateFMul(m, high);  // exact
  Value* t = v_.fma(turn, v_.f64(m, kTwoOverPi), v_.f64(m, kMagic));
  Value* n = b_.CreateFSub(t, v_.f64(m, kMagic));
  Value* rest = v_.fma(n, v_.f64(m, -kHalfPiHigh), turn);
  rest = v_.fma(m, low, rest);
  rest = v_.fma(n, v_.f64(m, -kHalfPiLow), rest);
  Value* finite =
      b_.CreateFCmpOLT(v_.abs(x32), v_.f32(x32, std::numeric_limits<float>::infinity()));
  *r = b_.CreateSelect(finite, rest, v_.f64(rest, std::numeric_limits<double>::quiet_NaN()));
  *quadrant = v_.to_int_bits(t);
}

MathEmitter::WideSinCos MathEmitter::sin_cos(Value* r, Value* quadrant) {
  Value* u = b_.CreateFMul(r, r);
  Value* s = v_.fma(b_.CreateFMul(r, u), polynomial(u, kSin64), r);
  Value* c = v_.fma(u, polynomial(u, kCos64), v_.f64(r, 1.0));
  return {s, c, quadrant};
}

Value* MathEmitter::atan_wide(Value* z) {
  return b_.CreateFMul(z, polynomial(b_.CreateFMul(z, z), kAtan64));
}

Value* MathEmitter::asin_core(Value* z) {
  return b_.CreateFMul(z, polynomial(b_.CreateFMul(z, z), kAsin64));
}

Value* MathEmitter::asin_acos(NestOp op, Value* x) {
  Value* a = v_.abs(x);
  Value* half = v_.f64(x, 0.5);
  Value* beyond = b_.CreateFCmpOGT(a, half);
  Value* complement = b_.CreateFMul(b_.CreateFSub(v_.f64(x, 1.0), a), half);
  Value* root = v_.unary_intrinsic(llvm::Intrinsic::sqrt, complement);
  Value* core = asin_core(b_.CreateSelect(beyond, root, a));
  Value* twice = b_.CreateFAdd(core, core);
  Value* half_pi = v_.f64(x, kHalfPiHigh);
  if (op == NestOp::kAsin) {
    Value* r = b_.CreateSelect(beyond, b_.CreateFSub(half_pi, twice), core);
    return v_.copysign(r, x);
  }
  Value* negative = b_.CreateFCmpOLT(x, v_.f64(x, 0.0));
  Value* outer = b_.CreateSelect(negative, b_.CreateFSub(v_.f64(x, kPi), twice), twice);
  Value* inner = b_.CreateFSub(half_pi, v_.copysign(core, x));
  return b_.CreateSelect(beyond, outer, inner);
}

Value* MathEmitter::atan2_32(Value* y32, Value* x32) {
  Value* y = widen(y32);
  Value* x = widen(x32);
  Value* ay = v_.abs(y);
  Value* ax = v_.abs(x);
  Value* steep = b_.CreateFCmpOGT(ay, ax);
  Value* ratio = b_.CreateFDiv(b_.CreateSelect(steep, ax, ay), b_.CreateSelect(steep, ay, ax));
  Value* zero = v_.f64(x, 0.0);
  Value* equal = b_.CreateFCmpOEQ(ax, ay);  // also 0/0 and inf/inf
  ratio = b_.CreateSelect(equal, v_.f64(x, 1.0), ratio);
  ratio = b_.CreateSelect(b_.CreateFCmpOEQ(ay, zero), zero, ratio);
  Value* r = atan_wide(ratio);
  r = b_.CreateSelect(steep, b_.CreateFSub(v_.f64(x, kHalfPiHigh), r), r);
  Value* left = b_.CreateICmpSLT(v_.to_int_bits(x), v_.i64(v_.to_int_bits(x), 0));
  r = b_.CreateSelect(left, b_.CreateFSub(v_.f64(x, kPi), r), r);
  r = v_.copysign(r, y);
  Value* nan = b_.CreateFAdd(x, y);
  r = b_.CreateSelect(b_.CreateFCmpUNO(x, y), nan, r);
  return narrow(r);
}

}  // namespace neuron::codegen
