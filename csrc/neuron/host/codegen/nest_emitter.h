// SPDX-License-Identifier: Apache-2.0
//
// NestEmitter: the loops of one verified nest as LLVM IR, one function per phase (kernel_args.h).
//
// Code is written in its final form, since no IR pass runs: values that do not vary inside a loop
// are emitted before it, elements are processed as vectors of 16, and the last, partial vector runs
// under a mask. With AVX-512 large bodies are emitted once and always masked; otherwise there is an
// unmasked body for whole vectors and a masked one for the rest.
//
//   NestEmitter(nest, module, features).run();
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "neuron/host/codegen/value_emitter.h"
#include "neuron/host/loop_nest_analysis.h"

namespace neuron::codegen {

class NestEmitter {
 public:
  NestEmitter(const LoopNest& nest, llvm::Module& module, TargetFeatures features);

  void run();

 private:
  using Values = std::vector<Value*>;
  using Body = std::function<Values(Value* index, const Values& carried)>;

  // nest_emitter.cpp: functions, work items
  void begin_function(int phase);
  void end_function();
  void emit_pointwise();
  void emit_horizontal();
  void emit_row();
  void emit_split(int phase);
  void emit_column(int phase);
  void emit_sequential();
  bool columns_inside_rows() const;
  void emit_rows_of_columns(Value* from, Value* to);
  // Runs `body` for the items [begin, end); pos_ of the first `dims` dims follows the item.
  void for_items(int dims, const std::function<void()>& body);
  void unravel(Value* linear, int first, int last);  // sets pos_[first .. last)
  void locate_operands();                            // item_pointer_ from pos_ of the parallel dims
  void emit_free();                                  // nodes that vary over nothing
  void emit_invariant(int passes_done);
  void emit_invariant_effects();
  void emit_columns(Value* from, Value* to, const std::function<void()>& body);
  Value* min(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); }
  Value* ceil_div(Value* a, int64_t c);
  Value* k(int64_t c) { return b_.getInt64(static_cast<uint64_t>(c)); }

  // nest_loops.cpp: loops and passes
  Values loop(Value* from, Value* to, Value* step, const Values& init, const Body& body);
  // Vectors of 16 from `from` to `to`, active_ set for partial ones.
  Values vector_loop(Value* from, Value* to, const Values& init, const Body& body);
  void emit_row_pass(int p);     // whole rows (kRow)
  void emit_column_pass(int p);  // all rows of one vector of columns (kSequential)
  // One reduction chunk of pass p; returns combined values of its reductions.
  Values emit_row_chunk(int p, Value* chunk, Values* carries);
  Values emit_column_chunk(int p, Value* first_row, Value* last_row, Values* carries);
  Values emit_body(int p, Value* row_linear, const Values& carried);
  struct RowGrid {
    Value* inner;
    Value* outer;
    Value* pieces;
    Value* group;
    Value* chunks;
  };
  RowGrid row_grid();
  void set_row_position(Value* outer_linear);

  // nest_reduce.cpp
  struct PassState {
    std::vector<NodeId> reductions;
    std::vector<NodeId> scans;
  };
  PassState pass_state(int p) const;
  bool is_arg(NodeId r) const;
  DType value_type(NodeId r) const;  // of what is reduced
  int slots(NodeId r) const { return is_arg(r) ? 2 : 1; }
  Values identities(NodeId r, bool vector);
  Values accumulators(const PassState& s);  // initial carried values of the reductions
  void accumulate(NodeId r, Value* x, Value* linear, Value** accumulators);
  Values fold(NodeId r, const Values& a, const Values& b);
  Values fold_accumulators(const PassState& s,
                           const Values& carried);  // 4 -> 1, and lanes if by rows
  Values fold_lanes(NodeId r, Values v);
  Values fold_all(const PassState& s, const Values& x, const Values& y);
  Values scan_init(const PassState& s);
  Value* emit_scan(NodeId id, Value* x, Value** carry);
  Value* one_if_equal(NodeId id, Value* v);
  void set_totals(const PassState& s, const Values& totals);
  Value* partial_pointer(NodeId r, Value* index, Value* count);
  void store_partials(const PassState& s, const Values& v, Value* index, Value* count);
  Values load_partials(const PassState& s, Value* index, Value* count);

  // nest_memory.cpp
  Value* value(NodeId id, bool vector);  // of an emitted node, broadcast if asked
  void emit_node(NodeId id);
  Value* emit_load(NodeId id);
  void emit_store(NodeId id);
  void emit_store_combine(NodeId id);
  Value* address(int operand, Value* offset, bool lanes);
  Value* lane_mask(Value* user, bool needed);
  Value* buffer_pointer(NodeId id);
  void keep(NodeId id);
  Value* read_back(NodeId id);
  Type* kept_type(DType t, bool vector) const;
  Value* iota() const;

  bool by_rows() const {
    return nest_.schedule == Schedule::kRow || nest_.schedule == Schedule::kSplit;
  }

  const LoopNest& nest_;
  NestAnalysis analysis_;
  llvm::Module& module_;
  llvm::IRBuilder<> b_;
  ValueEmitter v_;
  bool single_body_ = false;

  // The function that is being emitted.
  llvm::Function* function_ = nullptr;
  llvm::Value* item_begin_ = nullptr;
  llvm::Value* item_end_ = nullptr;
  Value* pointers_ = nullptr;
  Value* scalars_ = nullptr;
  Value* scratch_ = nullptr;
  Value* chunks_ = nullptr;
  Value* extent_table_ = nullptr;
  Value* nothing_ = nullptr;  // 8 zero bytes that masked scalar loads read
  Value* sink_ = nullptr;     // 8 bytes that masked lanes write
  std::vector<Value*> base_, index_stride_, item_pointer_, scalar_;
  std::vector<std::array<Value*, kMaxNestRank>> stride_;
  std::array<Value*, kMaxNestRank> extent_{};

  // The place in the iteration space.
  std::array<Value*, kMaxNestRank> pos_{};
  Value* active_ = nullptr;      // lanes of a partial vector
  Value* buffer_row_ = nullptr;  // element offset of the current position in row buffers
  std::vector<Value*> vals_;     // emitted nodes, null if not (or not visible here)
};

}  // namespace neuron::codegen
