// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/codegen/nest_emitter.h"

#include "neuron/base/error.h"
#include "neuron/host/kernel_args.h"

namespace neuron::codegen {

using llvm::BasicBlock;

namespace {

constexpr size_t kShortBody = 12;  // nodes; cheap to emit twice

}  // namespace

NestEmitter::NestEmitter(const LoopNest& nest, llvm::Module& module, TargetFeatures features)
    : nest_(nest),
      analysis_(nest),
      module_(module),
      b_(module.getContext()),
      v_(b_, module, features) {
  bool by_columns = nest.schedule == Schedule::kColumn || nest.schedule == Schedule::kSequential;
  single_body_ = features.avx512 && (by_columns || nest.nodes.size() > kShortBody);
}

void NestEmitter::run() {
  int phases = nest_.schedule == Schedule::kSplit || nest_.schedule == Schedule::kColumn ? 2 : 1;
  for (int phase = 0; phase < phases; ++phase) {
    begin_function(phase);
    switch (nest_.schedule) {
      case Schedule::kPointwise:
        emit_pointwise();
        break;
      case Schedule::kHorizontal:
        emit_horizontal();
        break;
      case Schedule::kRow:
        emit_row();
        break;
      case Schedule::kSplit:
        emit_split(phase);
        break;
      case Schedule::kColumn:
        emit_column(phase);
        break;
      case Schedule::kSequential:
        emit_sequential();
        break;
    }
    end_function();
  }
}

void NestEmitter::begin_function(int phase) {
  Type* pointer = b_.getPtrTy();
  auto* type =
      llvm::FunctionType::get(b_.getVoidTy(), {pointer, b_.getInt64Ty(), b_.getInt64Ty()}, false);
  function_ =
      llvm::Function::Create(type, llvm::Function::ExternalLinkage, kEntryNames[phase], module_);
  function_->setDoesNotThrow();
  function_->addFnAttr("prefer-vector-width", "512");
  function_->addFnAttr("min-legal-vector-width", "512");
  b_.SetInsertPoint(BasicBlock::Create(b_.getContext(), "entry", function_));
  Value* args = function_->getArg(0);
  item_begin_ = function_->getArg(1);
  item_end_ = function_->getArg(2);
  auto field = [&](size_t offset) {
    return b_.CreateLoad(pointer, b_.CreateConstGEP1_64(b_.getInt8Ty(), args, offset));
  };
  pointers_ = field(offsetof(KernelArgs, pointers));
  extent_table_ = field(offsetof(KernelArgs, extents));
  Value* strides = field(offsetof(KernelArgs, strides));
  Value* index_strides = field(offsetof(KernelArgs, index_strides));
  scalars_ = field(offsetof(KernelArgs, scalars));
  scratch_ = field(offsetof(KernelArgs, scratch));
  chunks_ = field(offsetof(KernelArgs, chunks));
  v_.set_status(field(offsetof(KernelArgs, status)));
  nothing_ = b_.CreateAlloca(b_.getInt64Ty());
  b_.CreateStore(b_.getInt64(0), nothing_);
  sink_ = b_.CreateAlloca(b_.getInt64Ty());
  b_.CreateStore(b_.getInt64(0), sink_);

  vals_.assign(nest_.nodes.size(), nullptr);
  pos_.fill(nullptr);
  extent_.fill(nullptr);
  active_ = nullptr;
  size_t count = nest_.operands.size();
  base_.assign(count, nullptr);
  item_pointer_.assign(count, nullptr);
  index_stride_.assign(count, nullptr);
  stride_.assign(count, {});
  scalar_.assign(nest_.scalars.size(), nullptr);
  if (nest_.schedule == Schedule::kHorizontal) return;  // the rest belongs to a table item
  auto word = [&](Value* table, int64_t at) {
    return b_.CreateLoad(b_.getInt64Ty(),
                         b_.CreateConstGEP1_64(b_.getInt64Ty(), table, static_cast<uint64_t>(at)));
  };
  for (int d = 0; d < nest_.rank(); ++d) extent_[d] = word(extent_table_, d);
  for (size_t o = 0; o < count; ++o) {
    base_[o] = b_.CreateLoad(pointer, b_.CreateConstGEP1_64(pointer, pointers_, o));
    index_stride_[o] = word(index_strides, static_cast<int64_t>(o));
    for (int d = 0; d < nest_.rank(); ++d)
      if (nest_.operands[o].strides[d] == Stride::kAny)
        stride_[o][d] = word(strides, static_cast<int64_t>(o) * nest_.rank() + d);
  }
  for (size_t s = 0; s < nest_.scalars.size(); ++s) {
    DType t = nest_.scalars[s];
    scalar_[s] =
        v_.from_memory(t, b_.CreateLoad(v_.memory_type(t, false),
                                        b_.CreateConstGEP1_64(b_.getInt64Ty(), scalars_, s)));
  }
}

void NestEmitter::end_function() { b_.CreateRetVoid(); }

Value* NestEmitter::ceil_div(Value* a, int64_t c) {
  return b_.CreateLShr(b_.CreateAdd(a, k(c - 1)),
                       k(static_cast<int64_t>(__builtin_ctzll(static_cast<uint64_t>(c)))));
}

// ---- places
// --------------------------------------------------------------------------------------

void NestEmitter::unravel(Value* linear, int first, int last) {
  for (int d = last - 1; d > first; --d) {
    pos_[d] = b_.CreateURem(linear, extent_[d]);
    linear = b_.CreateUDiv(linear, extent_[d]);
  }
  if (last > first) pos_[first] = linear;
}

void NestEmitter::locate_operands() {
  for (size_t o = 0; o < nest_.operands.size(); ++o) {
    const NestOperand& operand = nest_.operands[o];
    Value* offset = nullptr;
    for (int d = 0; d < nest_.parallel_rank; ++d) {
      if (d == nest_.vector_dim() || operand.strides[d] == Stride::kZero) continue;
      Value* part =
          operand.strides[d] == Stride::kUnit ? pos_[d] : b_.CreateMul(pos_[d], stride_[o][d]);
      offset = offset == nullptr ? part : b_.CreateAdd(offset, part);
    }
    item_pointer_[o] = offset == nullptr
                           ? base_[o]
                           : b_.CreateGEP(v_.memory_type(operand.dtype, false), base_[o], offset);
  }
}

void NestEmitter::for_items(int dims, const std::function<void()>& body) {
  Values first;
  if (dims > 0) {
    unravel(item_begin_, 0, dims);
    first.assign(pos_.begin(), pos_.begin() + dims);
  }
  loop(item_begin_, item_end_, k(1), first, [&](Value*, const Values& position) {
    std::vector<Value*> visible = vals_;
    for (int d = 0; d < dims; ++d) pos_[d] = position[d];
    body();
    vals_ = std::move(visible);
    Values next = position;
    Value* carry = b_.getInt64(1);
    for (int d = dims - 1; d >= 0; --d) {
      next[d] = b_.CreateAdd(position[d], carry);
      if (d == 0) break;
      Value* wraps = b_.CreateICmpEQ(next[d], extent_[d]);
      next[d] = b_.CreateSelect(wraps, k(0), next[d]);
      carry = b_.CreateZExt(wraps, b_.getInt64Ty());
    }
    return next;
  });
}

void NestEmitter::emit_free() {
  for (size_t id = 0; id < nest_.nodes.size(); ++id) {
    const NestNode& n = nest_.nodes[id];
    NodeId node = static_cast<NodeId>(id);
    bool value = op_class(n.op) != NestOpClass::kEffect && op_class(n.op) != NestOpClass::kReduce;
    // Loads need a located operand.
    if (analysis_.dims(node) != 0 || analysis_.pass(node) != 0 || !value || n.op == NestOp::kLoad)
      continue;
    bool ready = true;
    for (NodeId a : n.args) ready &= a == kNoNode || vals_[a] != nullptr;
    if (ready) emit_node(node);
  }
}

void NestEmitter::emit_invariant(int done) {
  for (size_t id = 0; id < nest_.nodes.size(); ++id) {
    NodeId node = static_cast<NodeId>(id);
    NestOpClass cls = op_class(nest_.nodes[id].op);
    if (cls == NestOpClass::kEffect || cls == NestOpClass::kReduce || vals_[id] != nullptr)
      continue;
    if (!analysis_.varies_over_rows(node) && analysis_.pass(node) == done) emit_node(node);
  }
}

void NestEmitter::emit_invariant_effects() {
  for (size_t id = 0; id < nest_.nodes.size(); ++id) {
    NodeId node = static_cast<NodeId>(id);
    if (op_class(nest_.nodes[id].op) == NestOpClass::kEffect && !analysis_.varies_over_rows(node))
      emit_node(node);
  }
}

// ---- schedules
// -----------------------------------------------------------------------------------

void NestEmitter::emit_pointwise() {
  int last = nest_.rank() - 1;
  Value* inner = extent_[last];
  emit_free();
  auto vectors = [&](Value* from, Value* to) {
    locate_operands();
    // What does not vary along the vectors.
    for (NodeId id : analysis_.pass_nodes(0))
      if (!analysis_.is_vector(id) && vals_[id] == nullptr) emit_node(id);
    vector_loop(from, to, {}, [&](Value* i, const Values& c) {
      pos_[last] = i;
      return emit_body(0, i, c);
    });
  };
  if (last == 0) return vectors(item_begin_, item_end_);
  // Items are elements; the first and the last inner row may be partial.
  Value *begin = item_begin_, *end = item_end_;
  auto* work = BasicBlock::Create(b_.getContext(), "work", function_);
  auto* done = BasicBlock::Create(b_.getContext(), "done", function_);
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), work, done);
  b_.SetInsertPoint(work);
  Value* first_row = b_.CreateUDiv(begin, inner);
  Value* last_row = b_.CreateUDiv(b_.CreateSub(end, k(1)), inner);
  Value* head = b_.CreateSub(begin, b_.CreateMul(first_row, inner));
  Value* tail = b_.CreateSub(end, b_.CreateMul(last_row, inner));
  Values position;
  unravel(first_row, 0, last);
  position.assign(pos_.begin(), pos_.begin() + last);
  loop(first_row, b_.CreateAdd(last_row, k(1)), k(1), position,
       [&](Value* row, const Values& place) {
         std::vector<Value*> visible = vals_;
         for (int d = 0; d < last; ++d) pos_[d] = place[d];
         vectors(b_.CreateSelect(b_.CreateICmpEQ(row, first_row), head, k(0)),
                 b_.CreateSelect(b_.CreateICmpEQ(row, last_row), tail, inner));
         vals_ = std::move(visible);
         Values next = place;
         Value* carry = k(1);
         for (int d = last - 1; d >= 0; --d) {
           next[d] = b_.CreateAdd(place[d], carry);
           if (d == 0) break;
           Value* wraps = b_.CreateICmpEQ(next[d], extent_[d]);
           next[d] = b_.CreateSelect(wraps, k(0), next[d]);
           carry = b_.CreateZExt(wraps, b_.getInt64Ty());
         }
         return next;
       });
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

void NestEmitter::emit_horizontal() {
  loop(item_begin_, item_end_, k(1), {}, [&](Value* chunk, const Values&) {
    std::vector<Value*> visible = vals_;
    auto word = [&](Value* table, Value* at) {
      return b_.CreateLoad(b_.getInt64Ty(), b_.CreateGEP(b_.getInt64Ty(), table, at));
    };
    Value* twice = b_.CreateShl(chunk, k(1));
    Value* item = word(chunks_, twice);
    Value* first = word(chunks_, b_.CreateAdd(twice, k(1)));
    extent_[0] = word(extent_table_, item);
    int64_t count = static_cast<int64_t>(nest_.operands.size());
    for (int64_t o = 0; o < count; ++o) {
      Value* at = b_.CreateAdd(b_.CreateMul(item, k(count)), k(o));
      item_pointer_[o] = b_.CreateLoad(b_.getPtrTy(), b_.CreateGEP(b_.getPtrTy(), pointers_, at));
    }
    int64_t scalars = static_cast<int64_t>(nest_.scalars.size());
    for (int64_t s = 0; s < scalars; ++s) {
      DType t = nest_.scalars[s];
      Value* at = b_.CreateAdd(b_.CreateMul(item, k(scalars)), k(s));
      Value* slot = b_.CreateGEP(b_.getInt64Ty(), scalars_, at);
      scalar_[s] = v_.from_memory(t, b_.CreateLoad(v_.memory_type(t, false), slot));
    }
    for (NodeId id : analysis_.pass_nodes(0))
      if (!analysis_.is_vector(id)) emit_node(id);
    Value* end = min(b_.CreateAdd(first, k(kHorizontalChunk)), extent_[0]);
    vector_loop(first, end, {}, [&](Value* i, const Values& c) {
      pos_[0] = i;
      return emit_body(0, i, c);
    });
    vals_ = std::move(visible);
    return Values{};
  });
}

void NestEmitter::emit_row() {
  emit_free();
  for_items(nest_.parallel_rank, [&] {
    locate_operands();
    for (int p = 0; p < analysis_.passes(); ++p) {
      emit_invariant(p);
      emit_row_pass(p);
    }
    emit_invariant(analysis_.passes());
    emit_invariant_effects();
  });
}

void NestEmitter::emit_split(int phase) {
  emit_free();
  PassState state = pass_state(0);
  RowGrid g = row_grid();
  Value* outer = k(1);
  for (int d = 0; d < nest_.parallel_rank; ++d) outer = b_.CreateMul(outer, extent_[d]);
  Value* count = b_.CreateMul(outer, g.chunks);
  loop(item_begin_, item_end_, k(1), {}, [&](Value* item, const Values&) {
    std::vector<Value*> visible = vals_;
    Value* row = item;
    Value* chunk = nullptr;
    if (phase == 0) {
      row = b_.CreateUDiv(item, g.chunks);
      chunk = b_.CreateSub(item, b_.CreateMul(row, g.chunks));
    }
    unravel(row, 0, nest_.parallel_rank);
    locate_operands();
    emit_invariant(0);
    if (phase == 0) {
      Values carries;
      store_partials(state, emit_row_chunk(0, chunk, &carries), item, count);
    } else {
      Values init;
      for (NodeId r : state.reductions)
        for (Value* v : identities(r, false)) init.push_back(v);
      Value* first = b_.CreateMul(item, g.chunks);
      Values totals = loop(first, b_.CreateAdd(first, g.chunks), k(1), init,
                           [&](Value* at, const Values& carried) {
                             return fold_all(state, carried, load_partials(state, at, count));
                           });
      set_totals(state, totals);
      emit_invariant(1);
      emit_invariant_effects();
    }
    vals_ = std::move(visible);
    return Values{};
  });
}

void NestEmitter::emit_columns(Value* from, Value* to, const std::function<void()>& body) {
  vector_loop(from, to, {}, [&](Value* column, const Values&) {
    std::vector<Value*> visible = vals_;
    pos_[nest_.vector_dim()] = column;
    body();
    vals_ = std::move(visible);
    return Values{};
  });
}

void NestEmitter::emit_column(int phase) {
  emit_free();
  PassState state = pass_state(0);
  int vector_dim = nest_.vector_dim();
  Value* columns = extent_[vector_dim];
  Value* rows = k(1);
  for (int d = nest_.parallel_rank; d < nest_.rank(); ++d) rows = b_.CreateMul(rows, extent_[d]);
  Value* leads = k(1);
  for (int d = 0; d < vector_dim; ++d) leads = b_.CreateMul(leads, extent_[d]);
  Value* chunks = ceil_div(rows, kColumnChunk);
  Value* blocks = ceil_div(columns, kColumnBlock);
  Value* padded = b_.CreateAnd(b_.CreateAdd(columns, k(kLanes - 1)), k(-kLanes));
  Value* count = b_.CreateMul(b_.CreateMul(leads, chunks), padded);
  loop(item_begin_, item_end_, k(1), {}, [&](Value* item, const Values&) {
    Value* rest = b_.CreateUDiv(item, blocks);
    Value* block = b_.CreateSub(item, b_.CreateMul(rest, blocks));
    Value* lead = rest;
    Value* chunk = k(0);
    if (phase == 0) {
      lead = b_.CreateUDiv(rest, chunks);
      chunk = b_.CreateSub(rest, b_.CreateMul(lead, chunks));
    }
    unravel(lead, 0, vector_dim);
    locate_operands();
    Value* from = b_.CreateMul(block, k(kColumnBlock));
    Value* to = min(b_.CreateAdd(from, k(kColumnBlock)), columns);
    Value* lead_chunk = b_.CreateMul(lead, chunks);
    emit_columns(from, to, [&] {
      emit_invariant(0);
      Value* column = pos_[vector_dim];
      auto index = [&](Value* c) {
        return b_.CreateAdd(b_.CreateMul(b_.CreateAdd(lead_chunk, c), padded), column);
      };
      if (phase == 0) {
        Value* first = b_.CreateMul(chunk, k(kColumnChunk));
        Values carries;
        Values part =
            emit_column_chunk(0, first, min(b_.CreateAdd(first, k(kColumnChunk)), rows), &carries);
        store_partials(state, part, index(chunk), count);
        return;
      }
      Values init;
      for (NodeId r : state.reductions)
        for (Value* v : identities(r, true)) init.push_back(v);
      Values totals = loop(k(0), chunks, k(1), init, [&](Value* c, const Values& carried) {
        return fold_all(state, carried, load_partials(state, index(c), count));
      });
      set_totals(state, totals);
      emit_invariant(1);
      emit_invariant_effects();
    });
    return Values{};
  });
}

// Rows that carry nothing from one to the next but what they write: all columns of a block follow
// one another within a row, which reads memory in order.
bool NestEmitter::columns_inside_rows() const {
  if (analysis_.passes() != 1 || !analysis_.buffered().empty()) return false;
  for (size_t id = 0; id < nest_.nodes.size(); ++id) {
    NestOpClass cls = op_class(nest_.nodes[id].op);
    if (cls == NestOpClass::kReduce || cls == NestOpClass::kScan) return false;
    if (cls == NestOpClass::kEffect && !analysis_.varies_over_rows(static_cast<NodeId>(id)))
      return false;
  }
  return true;
}

void NestEmitter::emit_rows_of_columns(Value* from, Value* to) {
  auto emit_scalars = [&](bool of_row) {
    for (size_t id = 0; id < nest_.nodes.size(); ++id) {
      NodeId node = static_cast<NodeId>(id);
      bool effect = op_class(nest_.nodes[id].op) == NestOpClass::kEffect;
      if (effect || vals_[id] != nullptr || analysis_.is_vector(node)) continue;
      if (analysis_.varies_over_rows(node) == of_row) emit_node(node);
    }
  };
  Value* rows = k(1);
  for (int d = nest_.parallel_rank; d < nest_.rank(); ++d) rows = b_.CreateMul(rows, extent_[d]);
  emit_scalars(false);
  loop(k(0), rows, k(1), {}, [&](Value* row, const Values&) {
    std::vector<Value*> visible = vals_;
    set_row_position(row);
    emit_scalars(true);
    emit_columns(from, to, [&] {
      emit_invariant(0);
      emit_body(0, row, {});
    });
    vals_ = std::move(visible);
    return Values{};
  });
}

void NestEmitter::emit_sequential() {
  emit_free();
  int vector_dim = nest_.vector_dim();
  Value* columns = extent_[vector_dim];
  Value* blocks = ceil_div(columns, kSequentialBlock);
  loop(item_begin_, item_end_, k(1), {}, [&](Value* item, const Values&) {
    Value* lead = b_.CreateUDiv(item, blocks);
    Value* block = b_.CreateSub(item, b_.CreateMul(lead, blocks));
    unravel(lead, 0, vector_dim);
    locate_operands();
    Value* from = b_.CreateMul(block, k(kSequentialBlock));
    Value* to = min(b_.CreateAdd(from, k(kSequentialBlock)), columns);
    if (columns_inside_rows()) {
      std::vector<Value*> visible = vals_;
      emit_rows_of_columns(from, to);
      vals_ = std::move(visible);
      return Values{};
    }
    emit_columns(from, to, [&] {
      for (int p = 0; p < analysis_.passes(); ++p) {
        emit_invariant(p);
        emit_column_pass(p);
      }
      emit_invariant(analysis_.passes());
      emit_invariant_effects();
    });
    return Values{};
  });
}

}  // namespace neuron::codegen
