// SPDX-License-Identifier: Apache-2.0
//
// WindowForm: a run of records in the form that planning works on: nodes in record order, each with
// its canonical geometry, and edges that say how a node depends on earlier ones through memory.
//
// A node is one part of a lowered operation, or a host call. What a plan depends on is exactly what
// `key` holds; sizes, strides, addresses and scalars are read from the nodes at every execution.
//
// Made by eager/analysis.h.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "neuron/ir/op_record.h"
#include "neuron/lower/canonical.h"

namespace neuron {

enum class Link : uint8_t {
  kForward,  // reads exactly the elements that `from` wrote last: the value may be forwarded
  kAligned,  // overwrites exactly the elements that `from` reads or wrote
  kOrder,    // overlaps otherwise: `from` must have finished
};

struct Edge {
  int32_t from = 0;          // node
  uint8_t from_operand = 0;  // canonical operand of `from`; kWholeNode for a host call
  uint8_t to_operand = 0;
  Link link = Link::kOrder;

  static constexpr uint8_t kWholeNode = 255;
};

struct FormNode {
  const OpRecord* record = nullptr;
  int32_t record_index = 0;  // in the window
  uint8_t part = 0;
  bool host = false;
  Canonical canonical;  // of lowered parts
  // Per canonical operand: its block, as an index of WindowForm::blocks; the first operand of the
  // window that accesses the same elements in the same way, numbered in order of appearance; and
  // whether the block is a temporary: dead, written before it is read, and seen by lowered records
  // of this window alone.
  std::array<int32_t, kMaxOperands> block{};
  std::array<int32_t, kMaxOperands> access{};
  std::array<bool, kMaxOperands> temporary{};
  int32_t first_edge = 0;
  int32_t edge_count = 0;
};

struct FormBlock {
  Block* block = nullptr;
  bool temporary = false;
  bool shares_memory = false;  // with another block of the window
};

struct WindowForm {
  std::vector<FormNode> nodes;
  std::vector<FormBlock> blocks;
  std::vector<Edge> edges;
  std::vector<uint64_t> key;
};

// Rows longer than this do not stay in cache between the passes of a kernel.
constexpr int64_t kLongRow = 64 * 1024;
bool has_long_rows(const Canonical& canonical);

}  // namespace neuron
