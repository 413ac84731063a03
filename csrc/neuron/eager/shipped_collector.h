// SPDX-License-Identifier: Apache-2.0
//
// ShippedCollector: plans single operations given by dtypes and layouts, and keeps their kernels.
//
// A layout is a text that names the dims an operand varies over, as they lie in memory, outermost
// first. Dims are letters, 'a' the first of the operation; all have different sizes, 'z' has
// size 1.
// "_" after a letter leaves a gap behind that dim's elements, as a slice does. The operation's dims
// are the letters of its shape. With shape "abc":
//
//   "abc" contiguous    "acb" the last two dims transposed    "ab_c" rows of a wider tensor
//   "abc_" every other element    "c" broadcast like a bias    "ab" like a mean over the last dim
//   "" one element
//
//   ShippedCollector c;
//   c.add(LoweredOp::kAdd, "ab", {{kFloat32, "ab"}, {kFloat32, "b"}}, {{kFloat32, "ab"}}, words);
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "neuron/eager/analysis.h"
#include "neuron/host/loop_nest.h"
#include "neuron/lower/attributes.h"
#include "neuron/lower/op_table.h"
#include "neuron/runtime/window.h"

namespace neuron {

class ShippedCollector {
 public:
  static constexpr int64_t kGroups = 7;

  struct Operand {
    DType dtype;
    std::string_view layout;
    std::string_view shape = {};  // if it is not the operation's
    int memory_of = -1;           // the same memory as that input
  };

  ShippedCollector();
  ~ShippedCollector();
  ShippedCollector(const ShippedCollector&) = delete;
  ShippedCollector& operator=(const ShippedCollector&) = delete;

  void add(LoweredOp op, std::string_view shape, const std::vector<Operand>& inputs,
           const std::vector<Operand>& outputs, const AttributeWriter& attributes);

  std::vector<LoopNest> take() { return std::move(nests_); }

 private:
  struct Geometry {
    std::array<int64_t, kMaxRank> sizes, strides;
  };
  TensorRef reference(const Operand& operand, std::string_view shape, Block* block, Geometry* g);

  // Memory that is never touched.
  std::array<Block*, 2 * kMaxOperands> blocks_;
  Window window_;
  WindowAnalyzer analyzer_;
  std::unordered_set<std::string> known_;  // texts of nests_
  std::vector<LoopNest> nests_;
};

}  // namespace neuron
