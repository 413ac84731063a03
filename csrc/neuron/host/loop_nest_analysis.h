// SPDX-License-Identifier: Apache-2.0
//
// NestAnalysis: what follows from a nest's structure alone: which dims each node varies over, in
// which pass over the row it is computed, what must be kept between passes, and how work items and
// scratch memory follow from the extents. Used by the code generator and, without it, by launches.
//
//   NestAnalysis a(nest);
//   WorkShape w = a.work(extents);   // items per phase, scratch bytes
#pragma once

#include <cstdint>
#include <vector>

#include "neuron/host/loop_nest.h"

namespace neuron {

struct WorkShape {
  int phases = 1;
  int64_t items[2] = {0, 0};  // work items of each phase
  int64_t cost[2] = {1, 1};   // rough elements of work per item, for the grain
  int64_t scratch_bytes = 0;  // per calling thread, or shared if `shared_scratch`
  bool shared_scratch = false;
};

class NestAnalysis {
 public:
  // The nest must be verified and outlive the analysis.
  explicit NestAnalysis(const LoopNest& nest);

  const LoopNest& nest() const { return nest_; }
  bool varies(NodeId n, int dim) const { return (dims_[n] >> dim) & 1; }
  bool varies_over_rows(NodeId n) const { return (dims_[n] & row_mask_) != 0; }
  bool is_vector(NodeId n) const { return varies(n, nest_.vector_dim()); }
  uint32_t dims(NodeId n) const { return dims_[n]; }

  // Passes over the row dims; 0 for nests without rows, and then everything is at pass 0.
  int passes() const { return passes_; }
  // Row-varying nodes, reductions and effects: the pass that computes them. Others: the number of
  // passes that must be complete before they can be computed.
  int pass(NodeId n) const { return pass_[n]; }

  // Nodes that pass `p` computes itself, in SSA order: its effects, reductions and what they need,
  // except values read back from row buffers.
  const std::vector<NodeId>& pass_nodes(int p) const { return pass_nodes_[p]; }

  // Row buffer of a node that a later pass reads back, or -1.
  int buffer(NodeId n) const { return buffer_[n]; }
  const std::vector<NodeId>& buffered() const { return buffered_; }
  // Reductions in SSA order; kSplit and kColumn keep one partial per reduction and chunk.
  const std::vector<NodeId>& reductions() const { return reductions_; }

  WorkShape work(const int64_t* extents) const;

 private:
  void find_dims();
  void find_passes();
  bool recomputable(NodeId n, int reader_pass, int* budget) const;
  void collect_pass(int p);

  const LoopNest& nest_;
  uint32_t row_mask_ = 0;
  int passes_ = 0;
  int first_store_pass_ = 0;  // of a row-varying store; later passes must not load again
  std::vector<uint32_t> dims_;
  std::vector<int> pass_;
  std::vector<std::vector<NodeId>> pass_nodes_;
  std::vector<int> buffer_;
  std::vector<NodeId> buffered_;
  std::vector<NodeId> reductions_;
};

// Bytes that one value takes in a row buffer or partial result (bf16, f16 are kept as f32).
int64_t kept_size(DType t);
// Bytes of one reduction's partial results per element: value, and index for arg reductions.
int64_t partial_size(const LoopNest& nest, NodeId reduction);

}  // namespace neuron
