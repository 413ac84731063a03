// SPDX-License-Identifier: Apache-2.0
//
// Nodes one by one: loads, stores, row buffers, and the hand-over to ValueEmitter.
#include "neuron/base/error.h"
#include "neuron/host/codegen/nest_emitter.h"
#include "neuron/host/kernel_args.h"

namespace neuron::codegen {

using llvm::Align;
using llvm::Constant;
using llvm::FixedVectorType;

Value* NestEmitter::iota() const {
  std::array<uint64_t, kLanes> lanes;
  for (uint64_t k = 0; k < kLanes; ++k) lanes[k] = k;
  return llvm::ConstantDataVector::get(b_.getContext(), lanes);
}

Value* NestEmitter::value(NodeId id, bool vector) {
  Value* v = vals_[id];
  if (v == nullptr)
    throw Error(ErrorCode::kInternal,
                "node " + std::to_string(id) + " is used before it is emitted");
  return vector && !v->getType()->isVectorTy() ? v_.splat(v) : v;
}

Value* NestEmitter::lane_mask(Value* user, bool needed) {
  Value* m = active_;
  if (user != nullptr) {
    if (!user->getType()->isVectorTy()) user = v_.splat(user);
    m = m == nullptr ? user : b_.CreateAnd(m, user);
  }
  if (m == nullptr && needed)
    m = Constant::getAllOnesValue(FixedVectorType::get(b_.getInt1Ty(), kLanes));
  return m;
}

// The address of the current element; with `lanes` a vector of addresses.
Value* NestEmitter::address(int operand, Value* offset, bool lanes) {
  const NestOperand& o = nest_.operands[operand];
  Type* element = v_.memory_type(o.dtype, false);
  int vector_dim = nest_.vector_dim();
  Value* scalar = nullptr;
  auto add = [&](Value* v) { scalar = scalar == nullptr ? v : b_.CreateAdd(scalar, v); };
  for (int d = 0; d < nest_.rank(); ++d) {
    bool located = d < nest_.parallel_rank && d != vector_dim;  // part of item_pointer_
    if (located || o.strides[d] == Stride::kZero || pos_[d] == nullptr) continue;
    add(o.strides[d] == Stride::kUnit ? pos_[d] : b_.CreateMul(pos_[d], stride_[operand][d]));
  }
  bool vector_offset = offset != nullptr && offset->getType()->isVectorTy();
  if (offset != nullptr && !vector_offset) add(b_.CreateMul(offset, index_stride_[operand]));
  Value* p = item_pointer_[operand];
  if (scalar != nullptr) p = b_.CreateGEP(element, p, scalar);
  if (!lanes) return p;
  Value* step = Constant::getNullValue(FixedVectorType::get(b_.getInt64Ty(), kLanes));
  if (o.strides[vector_dim] == Stride::kUnit) step = iota();
  if (o.strides[vector_dim] == Stride::kAny)
    step = b_.CreateMul(iota(), v_.splat(stride_[operand][vector_dim]));
  if (vector_offset)
    step = b_.CreateAdd(step, b_.CreateMul(offset, v_.splat(index_stride_[operand])));
  return b_.CreateGEP(element, p, step);
}

Value* NestEmitter::emit_load(NodeId id) {
  const NestNode& n = nest_.nodes[id];
  bool vector = analysis_.is_vector(id);
  Value* offset = n.args[0] == kNoNode ? nullptr : vals_[n.args[0]];
  Value* user = n.args[1] == kNoNode ? nullptr : vals_[n.args[1]];
  Type* type = v_.memory_type(n.dtype, vector);
  Align align(element_size(n.dtype));
  if (!vector) {
    Value* p = address(n.attr, offset, false);
    if (user != nullptr) p = b_.CreateSelect(user, p, nothing_);
    return v_.from_memory(n.dtype, b_.CreateAlignedLoad(type, p, align));
  }
  bool lanes = nest_.operands[n.attr].strides[nest_.vector_dim()] != Stride::kUnit ||
               (offset != nullptr && offset->getType()->isVectorTy());
  Value* p = address(n.attr, offset, lanes);
  Constant* zero = Constant::getNullValue(type);
  Value* mask = lane_mask(user, lanes);
  Value* raw = nullptr;
  if (lanes) {
    raw = b_.CreateMaskedGather(type, p, align, mask, zero);
  } else if (mask != nullptr) {
    raw = b_.CreateMaskedLoad(type, p, align, mask, zero);
  } else {
    raw = b_.CreateAlignedLoad(type, p, align);
  }
  return v_.from_memory(n.dtype, raw);
}

void NestEmitter::emit_store(NodeId id) {
  const NestNode& n = nest_.nodes[id];
  if (n.op != NestOp::kStore) return emit_store_combine(id);
  bool vector = analysis_.is_vector(id);
  Value* offset = n.args[1] == kNoNode ? nullptr : vals_[n.args[1]];
  Value* user = n.args[2] == kNoNode ? nullptr : vals_[n.args[2]];
  Value* raw = v_.to_memory(n.dtype, value(n.args[0], vector));
  Align align(element_size(n.dtype));
  if (!vector) {
    Value* p = address(n.attr, offset, false);
    llvm::BasicBlock* next = nullptr;
    if (user != nullptr) {
      auto* write = llvm::BasicBlock::Create(b_.getContext(), "write", function_);
      next = llvm::BasicBlock::Create(b_.getContext(), "next", function_);
      b_.CreateCondBr(user, write, next);
      b_.SetInsertPoint(write);
    }
    b_.CreateAlignedStore(raw, p, align);
    if (next != nullptr) {
      b_.CreateBr(next);
      b_.SetInsertPoint(next);
    }
    return;
  }
  bool lanes = nest_.operands[n.attr].strides[nest_.vector_dim()] != Stride::kUnit ||
               (offset != nullptr && offset->getType()->isVectorTy());
  Value* p = address(n.attr, offset, lanes);
  Value* mask = lane_mask(user, lanes);
  if (lanes) {
    b_.CreateMaskedScatter(raw, p, align, mask);  // lanes that collide: the last one stays
  } else if (mask != nullptr) {
    b_.CreateMaskedStore(raw, p, align, mask);
  } else {
    b_.CreateAlignedStore(raw, p, align);
  }
}

// Read, combine, write. Lanes are different columns, or elements of one row; where an operand has
// stride 0 along them, they may meet in one place and go one after the other.
void NestEmitter::emit_store_combine(NodeId id) {
  const NestNode& n = nest_.nodes[id];
  Value* offset = n.args[1] == kNoNode ? nullptr : vals_[n.args[1]];
  Value* user = n.args[2] == kNoNode ? nullptr : vals_[n.args[2]];
  Align align(element_size(n.dtype));
  Stride stride = nest_.operands[n.attr].strides[nest_.vector_dim()];
  Value* mask = lane_mask(user, true);
  Value* x = value(n.args[0], true);
  Type* type = v_.memory_type(n.dtype, true);
  if (stride == Stride::kUnit && (offset == nullptr || !offset->getType()->isVectorTy())) {
    Value* p = address(n.attr, offset, false);
    Value* old = v_.from_memory(
        n.dtype, b_.CreateMaskedLoad(type, p, align, mask, Constant::getNullValue(type)));
    b_.CreateMaskedStore(v_.to_memory(n.dtype, v_.combine(n.op, n.dtype, old, x)), p, align, mask);
    return;
  }
  Value* p = address(n.attr, offset, true);
  if (stride != Stride::kZero) {
    Value* old = v_.from_memory(
        n.dtype, b_.CreateMaskedGather(type, p, align, mask, Constant::getNullValue(type)));
    b_.CreateMaskedScatter(v_.to_memory(n.dtype, v_.combine(n.op, n.dtype, old, x)), p, align,
                           mask);
    return;
  }
  // Lanes that are off write to a place of their own, so that there is no branch.
  if (lane_mask(user, false) != nullptr) p = b_.CreateSelect(mask, p, v_.splat(sink_));
  Type* scalar = v_.memory_type(n.dtype, false);
  for (uint64_t lane = 0; lane < kLanes; ++lane) {
    Value* place = b_.CreateExtractElement(p, lane);
    Value* old = v_.from_memory(n.dtype, b_.CreateAlignedLoad(scalar, place, align));
    Value* sum = v_.combine(n.op, n.dtype, old, b_.CreateExtractElement(x, lane));
    b_.CreateAlignedStore(v_.to_memory(n.dtype, sum), place, align);
  }
}

void NestEmitter::emit_node(NodeId id) {
  const NestNode& n = nest_.nodes[id];
  bool vector = analysis_.is_vector(id);
  v_.set_active(vector ? active_ : nullptr);
  switch (n.op) {
    case NestOp::kLoad:
      vals_[id] = emit_load(id);
      return;
    case NestOp::kScalar:
      vals_[id] = scalar_[n.attr];
      return;
    case NestOp::kConstant:
      vals_[id] = v_.constant(n.dtype, n.bits, false);
      return;
    case NestOp::kExtent:
      vals_[id] = extent_[n.attr];
      return;
    case NestOp::kIndex: {
      Value* v = pos_[n.attr];
      if (vector && n.attr == nest_.vector_dim()) v = b_.CreateAdd(v_.splat(v), iota());
      vals_[id] = v;
      return;
    }
    default:
      break;
  }
  if (op_class(n.op) == NestOpClass::kEffect) {
    emit_store(id);
    vals_[id] = b_.getFalse();  // done in this scope
    return;
  }
  Value* args[3] = {nullptr, nullptr, nullptr};
  for (int a = 0; a < 3; ++a)
    if (n.args[a] != kNoNode) args[a] = value(n.args[a], vector);
  vals_[id] = v_.apply(n, nest_.nodes[n.args[0]].dtype, args);
}

// ---- row buffers
// ---------------------------------------------------------------------------------

Type* NestEmitter::kept_type(DType t, bool vector) const {
  return is_narrow_float(t) ? v_.register_type(t, vector) : v_.memory_type(t, vector);
}

Value* NestEmitter::buffer_pointer(NodeId id) {
  // Buffers follow one another, each `kept_size` bytes for every padded element of the row.
  int64_t before = 0;
  for (NodeId other : analysis_.buffered()) {
    if (other == id) break;
    before += kept_size(nest_.nodes[other].dtype);
  }
  Value* elements = nullptr;
  if (by_rows()) {
    Value* inner = extent_[nest_.rank() - 1];
    elements = b_.CreateAnd(b_.CreateAdd(inner, k(kLanes - 1)), k(-kLanes));
    for (int d = nest_.parallel_rank; d < nest_.rank() - 1; ++d)
      elements = b_.CreateMul(elements, extent_[d]);
  } else {
    elements = k(kLanes);
    for (int d = nest_.parallel_rank; d < nest_.rank(); ++d)
      elements = b_.CreateMul(elements, extent_[d]);
  }
  Value* start = b_.CreateGEP(b_.getInt8Ty(), scratch_, b_.CreateMul(elements, k(before)));
  return b_.CreateGEP(kept_type(nest_.nodes[id].dtype, false), start, buffer_row_);
}

void NestEmitter::keep(NodeId id) {
  DType t = nest_.nodes[id].dtype;
  Value* v = is_narrow_float(t) ? vals_[id] : v_.to_memory(t, vals_[id]);
  b_.CreateAlignedStore(v, buffer_pointer(id), Align(static_cast<uint64_t>(kept_size(t))));
}

Value* NestEmitter::read_back(NodeId id) {
  DType t = nest_.nodes[id].dtype;
  Value* raw = b_.CreateAlignedLoad(kept_type(t, analysis_.is_vector(id)), buffer_pointer(id),
                                    Align(static_cast<uint64_t>(kept_size(t))));
  return is_narrow_float(t) ? raw : v_.from_memory(t, raw);
}

}  // namespace neuron::codegen
