// SPDX-License-Identifier: Apache-2.0
//
// Reductions and scans. Element k of a chunk goes to lane k mod 16 (by rows) and to accumulator
// (k / 16) mod 4 (by rows) or k mod 4 (by columns). Accumulators are used in turn by rotating them
// through the loop's carried values, so one copy of the body serves all. A chunk ends by folding
// (0 1)(2 3), then lanes by halves; chunks fold one after the other, starting from the identity.
#include <limits>

#include "neuron/host/codegen/nest_emitter.h"
#include "neuron/host/kernel_args.h"

namespace neuron::codegen {

NestEmitter::PassState NestEmitter::pass_state(int p) const {
  PassState s;
  for (NodeId id : analysis_.pass_nodes(p)) {
    if (analysis_.pass(id) != p) continue;
    NestOpClass cls = op_class(nest_.nodes[id].op);
    if (cls == NestOpClass::kReduce) s.reductions.push_back(id);
    if (cls == NestOpClass::kScan) s.scans.push_back(id);
  }
  return s;
}

bool NestEmitter::is_arg(NodeId r) const {
  return nest_.nodes[r].op == NestOp::kArgMax || nest_.nodes[r].op == NestOp::kArgMin;
}

DType NestEmitter::value_type(NodeId r) const { return nest_.nodes[nest_.nodes[r].args[0]].dtype; }

NestEmitter::Values NestEmitter::identities(NodeId r, bool vector) {
  Values v{v_.identity(nest_.nodes[r].op, value_type(r), vector)};
  if (is_arg(r)) {
    Value* last = k(std::numeric_limits<int64_t>::max());
    v.push_back(vector ? v_.splat(last) : last);
  }
  return v;
}

NestEmitter::Values NestEmitter::accumulators(const PassState& s) {
  Values init;
  for (NodeId r : s.reductions)
    for (int a = 0; a < kAccumulators; ++a)
      for (Value* v : identities(r, true)) init.push_back(v);
  return init;
}

NestEmitter::Values NestEmitter::fold(NodeId r, const Values& x, const Values& y) {
  DType t = value_type(r);
  NestOp op = nest_.nodes[r].op;
  if (!is_arg(r)) return {v_.combine(op, t, x[0], y[0])};
  auto beats = [&](Value* p, Value* q) -> Value* {
    bool max = op == NestOp::kArgMax;
    if (!is_floating(t)) {
      if (is_signed(t)) return max ? b_.CreateICmpSGT(p, q) : b_.CreateICmpSLT(p, q);
      return max ? b_.CreateICmpUGT(p, q) : b_.CreateICmpULT(p, q);
    }
    Value* wins = max ? b_.CreateFCmpOGT(p, q) : b_.CreateFCmpOLT(p, q);
    return b_.CreateOr(wins, b_.CreateAnd(v_.is_nan(p), b_.CreateNot(v_.is_nan(q))));
  };
  Value* y_beats = beats(y[0], x[0]);
  Value* tie = b_.CreateNot(b_.CreateOr(y_beats, beats(x[0], y[0])));
  Value* take = b_.CreateOr(y_beats, b_.CreateAnd(tie, b_.CreateICmpSLT(y[1], x[1])));
  return {b_.CreateSelect(take, y[0], x[0]), b_.CreateSelect(take, y[1], x[1])};
}

// Folds x into the first accumulator and moves it behind the others.
void NestEmitter::accumulate(NodeId r, Value* x, Value* linear, Value** acc) {
  int width = slots(r);
  Values old(acc, acc + width);
  Values next{x};
  if (is_arg(r)) {
    Value* position = v_.splat(linear);
    next.push_back(by_rows() ? b_.CreateAdd(position, iota()) : position);
  }
  Values result = fold(r, old, next);
  for (int w = 0; w < width; ++w)
    if (active_ != nullptr && by_rows()) result[w] = b_.CreateSelect(active_, result[w], old[w]);
  for (int a = 0; a + width < kAccumulators * width; ++a) acc[a] = acc[a + width];
  for (int w = 0; w < width; ++w) acc[(kAccumulators - 1) * width + w] = result[w];
}

NestEmitter::Values NestEmitter::fold_lanes(NodeId r, Values v) {
  for (int half = kLanes / 2; half >= 1; half /= 2) {
    std::array<int, kLanes> from;
    for (int lane = 0; lane < kLanes; ++lane) from[lane] = lane < half ? lane + half : lane;
    Values other;
    for (Value* x : v) other.push_back(b_.CreateShuffleVector(x, from));
    v = fold(r, v, other);
  }
  for (Value*& x : v) x = b_.CreateExtractElement(x, uint64_t{0});
  return v;
}

NestEmitter::Values NestEmitter::fold_accumulators(const PassState& s, const Values& carried) {
  Values result;
  size_t at = 0;
  for (NodeId r : s.reductions) {
    std::array<Values, kAccumulators> a;
    for (Values& v : a) {
      v.assign(carried.begin() + static_cast<ptrdiff_t>(at),
               carried.begin() + static_cast<ptrdiff_t>(at) + slots(r));
      at += static_cast<size_t>(slots(r));
    }
    Values v = fold(r, fold(r, a[0], a[1]), fold(r, a[2], a[3]));
    if (by_rows()) v = fold_lanes(r, v);
    result.insert(result.end(), v.begin(), v.end());
  }
  return result;
}

NestEmitter::Values NestEmitter::fold_all(const PassState& s, const Values& x, const Values& y) {
  Values next;
  size_t at = 0;
  for (NodeId r : s.reductions) {
    auto slice = [&](const Values& v) {
      auto first = v.begin() + static_cast<ptrdiff_t>(at);
      return Values(first, first + slots(r));
    };
    for (Value* v : fold(r, slice(x), slice(y))) next.push_back(v);
    at += static_cast<size_t>(slots(r));
  }
  return next;
}

// A node that does not vary over the vector dim is a scalar to its users; all lanes hold it.
Value* NestEmitter::one_if_equal(NodeId id, Value* v) {
  const bool varies = (analysis_.dims(id) >> nest_.vector_dim() & 1) != 0;
  return varies || !v->getType()->isVectorTy() ? v : b_.CreateExtractElement(v, uint64_t{0});
}

void NestEmitter::set_totals(const PassState& s, const Values& totals) {
  size_t at = 0;
  for (NodeId r : s.reductions) {
    vals_[r] = one_if_equal(r, totals[at + static_cast<size_t>(slots(r)) - 1]);
    at += static_cast<size_t>(slots(r));
  }
}

// ---- scans
// ---------------------------------------------------------------------------------------

NestEmitter::Values NestEmitter::scan_init(const PassState& s) {
  Values init;
  for (NodeId id : s.scans)
    init.push_back(v_.identity(nest_.nodes[id].op, nest_.nodes[id].dtype, !by_rows()));
  return init;
}

Value* NestEmitter::emit_scan(NodeId id, Value* x, Value** carry) {
  const NestNode& n = nest_.nodes[id];
  if (!by_rows()) {
    *carry = v_.combine(n.op, n.dtype, *carry, x);
    return one_if_equal(id, *carry);
  }
  if (active_ != nullptr) x = b_.CreateSelect(active_, x, v_.identity(n.op, n.dtype, true));
  Value* result = llvm::PoisonValue::get(x->getType());
  for (uint64_t lane = 0; lane < kLanes; ++lane) {
    *carry = v_.combine(n.op, n.dtype, *carry, b_.CreateExtractElement(x, lane));
    result = b_.CreateInsertElement(result, *carry, lane);
  }
  return result;
}

// ---- partial results of two-phase reductions
// -----------------------------------------------------

// All partials of one reduction lie together, `count` of them; arg reductions keep the indices
// after the values of all. Offsets of 8-byte values stay aligned because the launcher pads nothing
// and the widest come first within a reduction: addresses are accessed with byte alignment.
Value* NestEmitter::partial_pointer(NodeId r, Value* index, Value* count) {
  int64_t before = 0;
  for (NodeId other : analysis_.reductions()) {
    if (other == r) break;
    before += partial_size(nest_, other);
  }
  Value* start = b_.CreateGEP(b_.getInt8Ty(), scratch_, b_.CreateMul(count, k(before)));
  return b_.CreateGEP(kept_type(value_type(r), false), start, index);
}

void NestEmitter::store_partials(const PassState& s, const Values& v, Value* index, Value* count) {
  size_t at = 0;
  for (NodeId r : s.reductions) {
    DType t = value_type(r);
    Value* raw = is_narrow_float(t) ? v[at] : v_.to_memory(t, v[at]);
    b_.CreateAlignedStore(raw, partial_pointer(r, index, count), llvm::Align(1));
    if (is_arg(r)) {
      Value* start = partial_pointer(r, count, count);
      b_.CreateAlignedStore(v[at + 1], b_.CreateGEP(b_.getInt64Ty(), start, index), llvm::Align(1));
    }
    at += static_cast<size_t>(slots(r));
  }
}

NestEmitter::Values NestEmitter::load_partials(const PassState& s, Value* index, Value* count) {
  Values v;
  bool vector = !by_rows();
  for (NodeId r : s.reductions) {
    DType t = value_type(r);
    Value* raw = b_.CreateAlignedLoad(kept_type(t, vector), partial_pointer(r, index, count),
                                      llvm::Align(1));
    v.push_back(is_narrow_float(t) ? raw : v_.from_memory(t, raw));
    if (is_arg(r)) {
      Value* start = partial_pointer(r, count, count);
      v.push_back(b_.CreateAlignedLoad(v_.register_type(DType::kInt64, vector),
                                       b_.CreateGEP(b_.getInt64Ty(), start, index),
                                       llvm::Align(1)));
    }
  }
  return v;
}

}  // namespace neuron::codegen
