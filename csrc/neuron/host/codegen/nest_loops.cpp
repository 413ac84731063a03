// SPDX-License-Identifier: Apache-2.0
//
// Loops, and passes over the row dims.
#include "neuron/host/codegen/nest_emitter.h"
#include "neuron/host/kernel_args.h"

namespace neuron::codegen {

using llvm::BasicBlock;
using llvm::PHINode;

// Tested at the bottom, behind a guard. The exit merges the guard's and the loop's values.
NestEmitter::Values NestEmitter::loop(Value* from, Value* to, Value* step, const Values& init,
                                      const Body& body) {
  BasicBlock* guard = b_.GetInsertBlock();
  BasicBlock* head = BasicBlock::Create(b_.getContext(), "loop", function_);
  BasicBlock* exit = BasicBlock::Create(b_.getContext(), "exit", function_);
  b_.CreateCondBr(b_.CreateICmpSLT(from, to), head, exit);
  b_.SetInsertPoint(head);
  PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2);
  index->addIncoming(from, guard);
  Values carried;
  for (Value* v : init) {
    PHINode* phi = b_.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, guard);
    carried.push_back(phi);
  }
  Values next = body(index, carried);
  BasicBlock* latch = b_.GetInsertBlock();
  Value* advanced = b_.CreateAdd(index, step);
  index->addIncoming(advanced, latch);
  for (size_t c = 0; c < next.size(); ++c)
    llvm::cast<PHINode>(carried[c])->addIncoming(next[c], latch);
  b_.CreateCondBr(b_.CreateICmpSLT(advanced, to), head, exit);
  b_.SetInsertPoint(exit);
  Values result;
  for (size_t c = 0; c < next.size(); ++c) {
    PHINode* phi = b_.CreatePHI(init[c]->getType(), 2);
    phi->addIncoming(init[c], guard);
    phi->addIncoming(next[c], latch);
    result.push_back(phi);
  }
  return result;
}

NestEmitter::Values NestEmitter::vector_loop(Value* from, Value* to, const Values& init,
                                             const Body& body) {
  Value* outer_active = active_;
  // Lanes below `count`. By a compare: LLVM fails to copy masks that it keeps in 16-bit registers.
  const auto first_lanes = [&](Value* count) {
    std::array<uint32_t, kLanes> lanes;
    for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] = lane;
    return b_.CreateICmpULT(llvm::ConstantDataVector::get(b_.getContext(), lanes),
                            v_.splat(b_.CreateTrunc(count, b_.getInt32Ty())));
  };
  Values result;
  if (single_body_) {
    result = loop(from, to, k(kLanes), init, [&](Value* i, const Values& carried) {
      active_ = first_lanes(min(b_.CreateSub(to, i), k(kLanes)));
      return body(i, carried);
    });
  } else {
    Value* whole = b_.CreateAdd(from, b_.CreateAnd(b_.CreateSub(to, from), k(-kLanes)));
    active_ = nullptr;
    Values main = loop(from, whole, k(kLanes), init, body);
    // The rest runs at most once; as a loop it needs no merging of its own.
    result = loop(whole, to, k(kLanes), main, [&](Value* i, const Values& carried) {
      active_ = first_lanes(b_.CreateSub(to, i));
      return body(i, carried);
    });
  }
  active_ = outer_active;
  return result;
}

NestEmitter::Values NestEmitter::emit_body(int p, Value* row_linear, const Values& carried) {
  std::vector<Value*> visible = vals_;
  PassState state = pass_state(p);
  Values next = carried;
  size_t at = 0;
  for (NodeId r : state.reductions) at += static_cast<size_t>(slots(r) * kAccumulators);
  size_t scan_at = at;
  at = 0;
  for (NodeId id : analysis_.pass_nodes(p)) {
    if (vals_[id] != nullptr) continue;
    const NestNode& n = nest_.nodes[id];
    bool earlier = nest_.row_rank > 0 && analysis_.pass(id) < p;
    if (op_class(n.op) == NestOpClass::kReduce) {
      accumulate(id, value(n.args[0], true), row_linear, &next[at]);
      at += static_cast<size_t>(slots(id) * kAccumulators);
    } else if (earlier && analysis_.buffer(id) >= 0) {
      vals_[id] = read_back(id);
    } else if (op_class(n.op) == NestOpClass::kScan) {
      vals_[id] = emit_scan(id, value(n.args[0], true), &next[scan_at++]);
      if (analysis_.buffer(id) >= 0) keep(id);
    } else {
      emit_node(id);
      if (analysis_.buffer(id) >= 0) keep(id);
    }
  }
  vals_ = std::move(visible);
  return next;
}

// ---- by rows
// -------------------------------------------------------------------------------------

// Chunks of a row: pieces of the innermost dim, or groups of whole inner rows where these are
// short.
NestEmitter::RowGrid NestEmitter::row_grid() {
  RowGrid g;
  g.inner = extent_[nest_.rank() - 1];
  g.pieces = ceil_div(g.inner, kRowChunk);
  if (nest_.row_rank == 1) {
    g.outer = g.group = k(1);
    g.chunks = g.pieces;
    return g;
  }
  g.outer = k(1);
  for (int d = nest_.parallel_rank; d < nest_.rank() - 1; ++d)
    g.outer = b_.CreateMul(g.outer, extent_[d]);
  Value* safe = b_.CreateSelect(b_.CreateICmpSLT(g.inner, k(1)), k(1), g.inner);
  Value* fitting = b_.CreateUDiv(k(kRowChunk), safe);
  g.group = b_.CreateSelect(b_.CreateICmpSGT(g.inner, k(kRowChunk)), k(1), fitting);
  Value* groups = b_.CreateUDiv(b_.CreateAdd(g.outer, b_.CreateSub(g.group, k(1))), g.group);
  g.chunks = b_.CreateMul(groups, g.pieces);
  return g;
}

void NestEmitter::set_row_position(Value* linear) {
  unravel(linear, nest_.parallel_rank, by_rows() ? nest_.rank() - 1 : nest_.rank());
}

NestEmitter::Values NestEmitter::emit_row_chunk(int p, Value* chunk, Values* carries) {
  PassState state = pass_state(p);
  int last = nest_.rank() - 1;
  RowGrid g = row_grid();
  Values init = accumulators(state);
  size_t split = init.size();
  init.insert(init.end(), carries->begin(), carries->end());
  Values out;
  if (nest_.row_rank == 1) {
    Value* first = b_.CreateMul(chunk, k(kRowChunk));
    Value* end = min(b_.CreateAdd(first, k(kRowChunk)), g.inner);
    out = vector_loop(first, end, init, [&](Value* i, const Values& c) {
      pos_[last] = buffer_row_ = i;
      return emit_body(p, i, c);
    });
  } else {
    Value* safe_pieces = b_.CreateSelect(b_.CreateICmpSLT(g.pieces, k(1)), k(1), g.pieces);
    Value* piece = b_.CreateURem(chunk, safe_pieces);
    Value* first_outer = b_.CreateMul(b_.CreateUDiv(chunk, safe_pieces), g.group);
    Value* end_outer = min(b_.CreateAdd(first_outer, g.group), g.outer);
    Value* first = b_.CreateMul(piece, k(kRowChunk));
    Value* end = min(b_.CreateAdd(first, k(kRowChunk)), g.inner);
    Value* padded = b_.CreateAnd(b_.CreateAdd(g.inner, k(kLanes - 1)), k(-kLanes));
    out = loop(first_outer, end_outer, k(1), init, [&](Value* o, const Values& carried) {
      set_row_position(o);
      Value* row_start = b_.CreateMul(o, g.inner);
      Value* buffer_start = b_.CreateMul(o, padded);
      return vector_loop(first, end, carried, [&](Value* i, const Values& c) {
        pos_[last] = i;
        buffer_row_ = b_.CreateAdd(buffer_start, i);
        return emit_body(p, b_.CreateAdd(row_start, i), c);
      });
    });
  }
  Values accumulated(out.begin(), out.begin() + static_cast<ptrdiff_t>(split));
  carries->assign(out.begin() + static_cast<ptrdiff_t>(split), out.end());
  return fold_accumulators(state, accumulated);
}

void NestEmitter::emit_row_pass(int p) {
  PassState state = pass_state(p);
  Values init;
  for (NodeId r : state.reductions)
    for (Value* v : identities(r, false)) init.push_back(v);
  size_t split = init.size();
  for (Value* v : scan_init(state)) init.push_back(v);
  Values out = loop(k(0), row_grid().chunks, k(1), init, [&](Value* chunk, const Values& carried) {
    Values carries(carried.begin() + static_cast<ptrdiff_t>(split), carried.end());
    Values part = emit_row_chunk(p, chunk, &carries);
    Values next = fold_all(state, carried, part);
    next.insert(next.end(), carries.begin(), carries.end());
    return next;
  });
  set_totals(state, out);
}

// ---- by columns
// ----------------------------------------------------------------------------------

NestEmitter::Values NestEmitter::emit_column_chunk(int p, Value* first, Value* end,
                                                   Values* carries) {
  PassState state = pass_state(p);
  Values init = accumulators(state);
  size_t split = init.size();
  init.insert(init.end(), carries->begin(), carries->end());
  Values out = loop(first, end, k(1), init, [&](Value* row, const Values& carried) {
    set_row_position(row);
    buffer_row_ = b_.CreateMul(row, k(kLanes));
    return emit_body(p, row, carried);
  });
  Values accumulated(out.begin(), out.begin() + static_cast<ptrdiff_t>(split));
  carries->assign(out.begin() + static_cast<ptrdiff_t>(split), out.end());
  return fold_accumulators(state, accumulated);
}

void NestEmitter::emit_column_pass(int p) {
  PassState state = pass_state(p);
  Value* rows = k(1);
  for (int d = nest_.parallel_rank; d < nest_.rank(); ++d) rows = b_.CreateMul(rows, extent_[d]);
  Values carries = scan_init(state);
  if (state.reductions.empty()) {
    emit_column_chunk(p, k(0), rows, &carries);
    return;
  }
  Values init;
  for (NodeId r : state.reductions)
    for (Value* v : identities(r, true)) init.push_back(v);
  size_t split = init.size();
  init.insert(init.end(), carries.begin(), carries.end());
  Values out = loop(k(0), rows, k(kColumnChunk), init, [&](Value* row, const Values& carried) {
    Values scans(carried.begin() + static_cast<ptrdiff_t>(split), carried.end());
    Values part = emit_column_chunk(p, row, min(b_.CreateAdd(row, k(kColumnChunk)), rows), &scans);
    Values next = fold_all(state, carried, part);
    next.insert(next.end(), scans.begin(), scans.end());
    return next;
  });
  set_totals(state, out);
}

}  // namespace neuron::codegen
