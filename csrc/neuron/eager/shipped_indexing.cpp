// SPDX-License-Identifier: Apache-2.0
//
// Indexing, movement by computed positions, and losses of classes (lower/indexing_table.h).
#include <span>
#include <string_view>
#include <vector>

#include "neuron/eager/shipped_families.h"

namespace neuron {
namespace {

using Operand = ShippedCollector::Operand;

constexpr DType kIndex = DType::kInt64;

struct Access {
  const char* tensor;
  const char* index;   // of each index tensor
  const char* access;  // the result of a read, the value of a write
  int first;
  int mask;
};

// Rows of a table by one or two dims of indices, and along a dim.
constexpr Access kEmbedding[] = {{"ab", "cd", "cdb", 0, 1}, {"ab", "c", "cb", 0, 1}};
constexpr Access kAlongDim[] = {{"a", "b", "b", 0, 1},     {"ab", "c", "cb", 0, 1},
                                {"ab", "c", "ac", 1, 2},   {"abc", "d", "dbc", 0, 1},
                                {"abc", "d", "adc", 1, 2}, {"abc", "d", "abd", 2, 4}};
constexpr Access kIndexed[] = {{"a", "b", "b", 0, 1},     {"a", "bc", "bc", 0, 1},
                               {"ab", "c", "cb", 0, 1},   {"ab", "cd", "cdb", 0, 1},
                               {"ab", "c", "c", 0, 3},    {"abc", "d", "dc", 0, 3},
                               {"abc", "d", "adc", 1, 2}, {"abcd", "e", "abed", 2, 4}};
// The index has all dims of the tensor; `first` is the dim.
constexpr Access kGathered[] = {{"ab", "ac", "ac", 1, 2},    {"ab", "az", "az", 1, 2},
                                {"ab", "cb", "cb", 0, 1},    {"a", "b", "b", 0, 1},
                                {"abc", "abd", "abd", 2, 4}, {"abc", "adc", "adc", 1, 2},
                                {"abc", "abz", "abz", 2, 4}};

std::span<const Access> accesses(LoweredOp op) {
  switch (op) {
    case LoweredOp::kEmbedding:
    case LoweredOp::kEmbeddingBackward:
      return kEmbedding;
    case LoweredOp::kIndexSelect:
    case LoweredOp::kIndexAdd:
    case LoweredOp::kIndexCopy:
    case LoweredOp::kIndexFill:
      return kAlongDim;
    case LoweredOp::kIndex:
    case LoweredOp::kIndexPut:
    case LoweredOp::kIndexPutAdd:
      return kIndexed;
    default:
      return kGathered;
  }
}

AttributeWriter index_words(const Access& x, bool gathered, bool scalar_value) {
  AttributeWriter a;
  a.structural(x.first);
  a.structural(gathered ? 0 : static_cast<int64_t>(std::string_view(x.index).size()));
  a.structural(x.mask);
  a.structural(scalar_value);
  return a;
}

bool is_gathered(LoweredOp op) {
  return accesses(op).data() == static_cast<const Access*>(kGathered);
}

std::vector<Operand> index_operands(const Access& x) {
  const auto count = static_cast<size_t>(__builtin_popcount(static_cast<unsigned>(x.mask)));
  return std::vector<Operand>(count, {kIndex, x.index, x.index});
}

// Dtypes of the tensors that are indexed.
std::vector<DType> indexed_dtypes(LoweredOp op) {
  if (op >= LoweredOp::kScatterMul && op <= LoweredOp::kScatterMinOnly) return {DType::kFloat32};
  std::vector<DType> dtypes(std::begin(kModelDtypes), std::end(kModelDtypes));
  if (op == LoweredOp::kEmbedding || op == LoweredOp::kEmbeddingBackward) return dtypes;
  dtypes.push_back(DType::kInt64);
  if (op == LoweredOp::kIndex || op == LoweredOp::kIndexSelect || op == LoweredOp::kGather ||
      op == LoweredOp::kIndexPut || op == LoweredOp::kScatter) {
    dtypes.push_back(DType::kBool);
  }
  return dtypes;
}

}  // namespace

void ship_index_read(ShippedCollector& c, LoweredOp op) {
  for (DType t : indexed_dtypes(op)) {
    for (const Access& x : accesses(op)) {
      std::vector<Operand> inputs{{t, x.tensor, x.tensor}};
      for (const Operand& index : index_operands(x)) inputs.push_back(index);
      c.add(op, x.access, inputs, {{t, x.access}}, index_words(x, is_gathered(op), false));
    }
  }
}

void ship_index_write(ShippedCollector& c, LoweredOp op) {
  const bool gathered = is_gathered(op);
  for (DType t : indexed_dtypes(op)) {
    for (const Access& x : accesses(op)) {
      if (op == LoweredOp::kEmbeddingBackward) {
        AttributeWriter a = index_words(x, false, false);
        a.value(int64_t{-1});
        std::vector<Operand> inputs{{t, x.access, x.access}};
        for (const Operand& index : index_operands(x)) inputs.push_back(index);
        c.add(op, x.tensor, inputs, {{t, x.tensor}}, a);
        continue;
      }
      for (bool scalar : {false, true}) {
        if (scalar && op_info(op_id(op)).values == 0) continue;
        AttributeWriter a = index_words(x, gathered, scalar);
        if (scalar && is_floating(t)) a.value(0.0);
        if (scalar && !is_floating(t)) a.value(int64_t{0});
        std::vector<Operand> inputs{{t, x.tensor, x.tensor}};
        for (const Operand& index : index_operands(x)) inputs.push_back(index);
        // index_fill's value is one element.
        const char* value = op == LoweredOp::kIndexFill ? "" : x.access;
        if (!scalar) inputs.push_back({t, value, value});
        c.add(op, x.tensor, inputs, {{t, x.tensor, {}, 0}}, a);  // in place
        c.add(op, x.tensor, inputs, {{t, x.tensor}}, a);
      }
    }
  }
}

void ship_window_read(ShippedCollector& c, LoweredOp op) {
  struct Window {
    const char* shape;
    const char* input;  // the padded or second dim is smaller than the result's
    int mask;
  };
  constexpr Window kWindows[] = {{"b", "a", 1},       {"bc", "ba", 2},     {"bc", "ac", 1},
                                 {"bd", "ac", 3},     {"bcf", "bce", 4},   {"bef", "bdf", 2},
                                 {"fde", "cde", 1},   {"acf", "abe", 6},   {"acdf", "acde", 8},
                                 {"acef", "acdf", 4}, {"acdf", "acbe", 12}};
  const auto add = [&](DType t, const Window& w) {
    if (op == LoweredOp::kCat) {
      if ((w.mask & (w.mask - 1)) != 0) return;
      for (size_t count = 2; count <= op_info(op_id(op)).operands; ++count) {
        AttributeWriter a;
        a.structural(__builtin_ctz(static_cast<unsigned>(w.mask)));
        for (int word = 1; word < 4; ++word) a.structural(0);
        c.add(op, w.shape, std::vector<Operand>(count, {t, w.input, w.input}), {{t, w.shape}}, a);
      }
      return;
    }
    AttributeWriter a;
    a.structural(0);
    a.structural(w.mask);
    a.structural(0);
    a.structural(0);
    if (op == LoweredOp::kPad) a.value(int64_t{0});
    for (int d = __builtin_popcount(static_cast<unsigned>(w.mask)); d > 0; --d) a.value(int64_t{1});
    c.add(op, w.shape, {{t, w.input, w.input}}, {{t, w.shape}}, a);
  };
  for (const Window& w : kWindows) {
    for (DType t : kModelDtypes) add(t, w);
    if (op == LoweredOp::kPad || op == LoweredOp::kCat) {
      add(kIndex, w);
      add(DType::kBool, w);
    }
  }
}

namespace {

struct Classes {
  const char* self;
  const char* target;
  int dim;
};
constexpr Classes kClasses[] = {{"ab", "a", 1}, {"abcd", "acd", 1}, {"abc", "ac", 1}};

AttributeWriter nll_words(const Classes& k, bool weight, int64_t reduction) {
  AttributeWriter a;
  a.structural(k.dim);
  a.structural(weight);
  a.structural(reduction);
  a.structural(0);
  a.value(int64_t{-100});
  return a;
}

}  // namespace

void ship_nll_loss(ShippedCollector& c, LoweredOp op) {
  for (DType t : kModelDtypes) {
    for (const Classes& k : kClasses) {
      for (bool weight : {false, true}) {
        for (int64_t reduction : {0, 1, 2}) {
          std::vector<Operand> inputs{{t, k.self, k.self}, {kIndex, k.target, k.target}};
          if (weight) inputs.push_back({t, "b", "b"});
          std::vector<Operand> outputs{{t, k.target, k.target}};
          if (reduction != 0) outputs = {{t, "", ""}, {t, "", ""}};
          c.add(op, k.self, inputs, outputs, nll_words(k, weight, reduction));
        }
      }
    }
  }
}

void ship_nll_loss_backward(ShippedCollector& c, LoweredOp op) {
  for (DType t : kModelDtypes) {
    for (const Classes& k : kClasses) {
      for (bool weight : {false, true}) {
        for (int64_t reduction : {0, 1, 2}) {
          const std::string_view grad = reduction == 0 ? k.target : "";
          std::vector<Operand> inputs{{t, grad, grad}, {kIndex, k.target, k.target}};
          if (weight) inputs.push_back({t, "b", "b"});
          if (reduction == 1) inputs.push_back({t, "", ""});
          c.add(op, k.self, inputs, {{t, k.self}}, nll_words(k, weight, reduction));
        }
      }
    }
  }
}

}  // namespace neuron
