// SPDX-License-Identifier: Apache-2.0
//
// Pointwise operations. Layouts as in shipped_collector.h; "#" is a host scalar.
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "neuron/eager/shipped_families.h"
#include "neuron/lower/op_dtypes.h"

namespace neuron {
namespace {

using Operand = ShippedCollector::Operand;

struct Layout {
  const char* shape;
  std::array<const char*, 4> operands;
  const char* output = nullptr;  // contiguous
};

struct Types {
  std::array<DType, 4> operands;
  DType common, output;
};

constexpr Layout kUnaryPlain[] = {{"a", {"a"}}, {"", {""}}};
constexpr Layout kUnaryStrided[] = {{"ab", {"a_b"}}, {"abc", {"a_b_c"}}, {"a", {"a_"}}};
constexpr Layout kRotated = {"abc", {"a_b_c_"}};  // every other element of heads

// The first kBinaryBasic serve rare operations and dtypes.
constexpr Layout kBinary[] = {
    {"a", {"a", "a"}},  {"a", {"a", "#"}},    {"a", {"a", ""}},    {"ab", {"a_b", "ab"}},
    {"", {"", ""}},     {"", {"", "#"}},      {"ab", {"ab", "b"}}, {"ab", {"ab", "a"}},
    {"a", {"", "a"}},   {"ab", {"b", "ab"}},  {"ab", {"a", "ab"}}, {"ab", {"a", "b"}},
    {"ab", {"b", "a"}}, {"ab", {"a_b", "#"}},
};
constexpr size_t kBinaryBasic = 8;
constexpr Layout kArithmetic[] = {
    {"a", {"#", "a"}},          {"", {"#", ""}},
    {"ab", {"#", "a_b"}},       {"ab", {"a_b", ""}},
    {"ab", {"", "a_b"}},        {"ab", {"a", "#"}},  // expanded, like the gradient of a mean
    {"ab", {"b", "#"}},         {"a", {"", "#"}},
    {"ab", {"ba", "ab"}},  // a transposed operand
    {"ab", {"ab", "ba"}},       {"abc", {"acb", "abc"}},
    {"abc", {"abc", "acb"}},    {"abc", {"a_b_c", "abc"}},  // heads of a projection
    {"abc", {"a_b_c", "#"}},    {"abc", {"a_b_c", ""}},
    {"abc", {"a_b_c", "ab"}},   {"abc", {"a_b_c", "bc"}},
    {"abc", {"bc", "a_b_c"}},   {"abcd", {"a_b_c_d", "abcd"}},
    {"abcd", {"a_b_c_d", "#"}}, {"abcd", {"a_b_c_d", "abc"}},
    {"abc", {"abc", "ac"}},  // masks over heads, rotary factors
    {"abc", {"ac", "abc"}},     {"abcd", {"abcd", "bd"}},
    {"abcd", {"bd", "abcd"}},   {"abc", {"abc", "b"}},  // channels
    {"abc", {"b", "abc"}},      {"abc", {"ab", "ac"}},  // pairs
    {"abc", {"ac", "ab"}},      {"a", {"a_", "a"}},     // every other element
    {"a", {"a", "a_"}},         {"a", {"a_", "#"}},
    {"a", {"a", "a"}, "a_"},    {"ab", {"ab_", "b"}},
};
// The gradient of a sum is one element repeated.
constexpr Layout kGradient[] = {
    {"a", {"a", "a"}}, {"", {"", ""}}, {"a", {"", "a"}}, {"ab", {"a_b", "ab"}}};

constexpr Layout kWhere[] = {
    {"a", {"a", "a", "a"}},      {"a", {"a", "a", "#"}},      {"a", {"a", "#", "a"}},
    {"a", {"a", "#", "#"}},      {"a", {"a", "a", ""}},       {"a", {"a", "", "a"}},
    {"a", {"a", "", ""}},        {"", {"", "", ""}},          {"", {"", "", "#"}},
    {"ab", {"b", "ab", "#"}},    {"ab", {"b", "ab", ""}},     {"ab", {"b", "#", "ab"}},
    {"ab", {"b", "", "ab"}},     {"ab", {"b", "ab", "ab"}},   {"ab", {"a", "ab", "#"}},
    {"ab", {"a", "ab", ""}},     {"ab", {"a", "#", "ab"}},    {"ab", {"a", "", "ab"}},
    {"ab", {"a", "ab", "ab"}},   {"abc", {"ac", "abc", "#"}}, {"abc", {"ac", "abc", ""}},
    {"abc", {"ac", "#", "abc"}}, {"abc", {"ac", "", "abc"}},  {"abc", {"ac", "abc", "abc"}},
    {"ab", {"ab", "a_b", "ab"}}, {"ab", {"ab", "a_b", ""}},   {"ab", {"ab", "a_b", "#"}},
};
constexpr Layout kMaskedFill[] = {
    {"a", {"a", "a", "#"}},
    {"a", {"a", "a", ""}},
    {"", {"", "", "#"}},
    {"ab", {"ab", "b", "#"}},
    {"ab", {"ab", "b", ""}},
    {"ab", {"ab", "a", "#"}},
    {"ab", {"ab", "a", ""}},
    {"ab", {"a_b", "ab", "#"}},
    {"ab", {"a_b", "ab", ""}},
    {"abc", {"abc", "ac", "#"}},
    {"abc", {"abc", "ac", ""}},
    {"abc", {"abc", "b", "#"}},
    {"abcd", {"abcd", "bd", "#"}},
    {"abc", {"a_b_c", "abc", "#"}},
    {"abcd", {"a_b_c_d", "abcd", "#"}},
};
constexpr Layout kTernary[] = {
    {"a", {"a", "a", "a"}},      {"a", {"a", "a", "#"}},    {"a", {"a", "#", "#"}},
    {"a", {"a", "a", ""}},       {"a", {"", "a", "a"}},     {"", {"", "", ""}},
    {"", {"", "#", "#"}},        {"ab", {"ab", "b", "ab"}}, {"ab", {"ab", "ab", "b"}},
    {"ab", {"a_b", "ab", "ab"}}, {"ab", {"a_b", "#", "#"}},
};
constexpr Layout kQuaternary[] = {{"a", {"a", "a", "a", "a"}}, {"a", {"", "a", "a", "a"}}};
constexpr Layout kFill[] = {
    {"a", {"#"}},         {"", {"#"}},         {"a", {""}},        {"", {""}},
    {"ab", {"#"}, "a_b"}, {"ab", {""}, "a_b"}, {"a", {"#"}, "a_"}, {"abc", {"#"}, "a_b_c"},
};
constexpr Layout kExpand[] = {
    {"a", {""}},          {"ab", {"b"}},      {"ab", {"a"}},         {"abc", {"ac"}},
    {"abc", {"b"}},       {"abcd", {"bd"}},   {"abcd", {"ac"}},      {"ab", {""}, "a_b"},
    {"ab", {"b"}, "a_b"}, {"a", {"a"}, "a_"}, {"ab", {"ba"}, "ab_"},
};

constexpr DType kOtherDtypes[] = {DType::kFloat64, DType::kInt64, DType::kInt32, DType::kBool,
                                  DType::kUInt8};

// The result is a truth value.
bool is_predicate(LoweredOp op) {
  switch (op) {
    case LoweredOp::kEq:
    case LoweredOp::kNe:
    case LoweredOp::kLt:
    case LoweredOp::kLe:
    case LoweredOp::kGt:
    case LoweredOp::kGe:
    case LoweredOp::kLogicalAnd:
    case LoweredOp::kLogicalOr:
    case LoweredOp::kLogicalXor:
    case LoweredOp::kLogicalNot:
    case LoweredOp::kIsNan:
    case LoweredOp::kIsInf:
    case LoweredOp::kIsFinite:
    case LoweredOp::kIsPosinf:
    case LoweredOp::kIsNeginf:
    case LoweredOp::kSignbit:
      return true;
    default:
      return false;
  }
}

// Met in all layouts and dtypes: arithmetic and what masks are made of.
bool is_common_binary(LoweredOp op) {
  switch (op) {
    case LoweredOp::kAdd:
    case LoweredOp::kSub:
    case LoweredOp::kMul:
    case LoweredOp::kDiv:
    case LoweredOp::kMaximum:
    case LoweredOp::kMinimum:
    case LoweredOp::kEq:
    case LoweredOp::kNe:
    case LoweredOp::kLt:
    case LoweredOp::kLe:
    case LoweredOp::kGt:
    case LoweredOp::kGe:
    case LoweredOp::kLogicalAnd:
    case LoweredOp::kLogicalOr:
    case LoweredOp::kBitwiseAnd:
    case LoweredOp::kBitwiseOr:
      return true;
    default:
      return false;
  }
}

// All operands of one dtype, but for masks.
Types uniform(LoweredOp op, DType t) {
  Types types{{t, t, t, t}, t, is_predicate(op) ? DType::kBool : t};
  if (op == LoweredOp::kWhere) types.operands[0] = DType::kBool;
  if (op == LoweredOp::kMaskedFill || op == LoweredOp::kNativeDropoutBackward) {
    types.operands[1] = DType::kBool;
  }
  return types;
}

class Pointwise {
 public:
  Pointwise(ShippedCollector& c, LoweredOp op) : c_(c), op_(op), info_(op_info(op_id(op))) {}

  void add(const Layout& l, const Types& types, bool same_operands = false) {
    if (!takes_common_dtype(op_, types.common)) return;
    std::vector<Operand> inputs;
    int64_t scalars = 0;
    for (size_t i = 0; i < info_.operands; ++i) {
      if (*l.operands[i] == '#') {
        scalars |= int64_t{1} << i;
      } else {
        inputs.push_back({types.operands[i], l.operands[i]});
        if (same_operands && i > 0) inputs.back().memory_of = 0;
      }
    }
    AttributeWriter a;
    a.structural(static_cast<int64_t>(types.common));
    a.structural(scalars);
    for (int word = __builtin_popcountll(static_cast<uint64_t>(scalars)) + info_.values; word > 0;
         --word) {
      a.value(int64_t{0});
    }
    const Operand output{types.output, l.output == nullptr ? l.shape : l.output};
    c_.add(op_, l.shape, inputs, std::vector<Operand>(info_.outputs, output), a);
  }

  void add(std::span<const Layout> layouts, const Types& types) {
    for (const Layout& l : layouts) add(l, types);
  }

  void add(std::span<const Layout> layouts, std::span<const DType> dtypes) {
    for (DType t : dtypes) add(layouts, uniform(op_, t));
  }

  void masked_fill() {
    add(kMaskedFill, kModelDtypes);
    add(std::span(kMaskedFill, 5), kOtherDtypes);
    for (DType half : {DType::kBFloat16, DType::kFloat16}) {
      for (const Layout& l : kMaskedFill) {
        if (*l.operands[2] == '#') continue;
        add(l, {{half, DType::kBool, DType::kFloat32}, half, half});
      }
    }
  }

  void unary() {
    if (op_ == LoweredOp::kNeg) add(std::span(&kRotated, 1), kModelDtypes);
    add(kUnaryPlain, kModelDtypes);
    add(kUnaryStrided, kModelDtypes);
    add(kUnaryPlain, kOtherDtypes);
  }

  void binary() {
    if (std::string_view(info_.name).ends_with("_backward")) {
      add(kGradient, kModelDtypes);
      return add(std::span(kGradient, 1), kOtherDtypes);
    }
    const std::span basic(kBinary, kBinaryBasic);
    const bool common = is_common_binary(op_);
    add(common ? std::span(kBinary) : basic, kModelDtypes);
    add(common ? basic : basic.first(2), kOtherDtypes);
    if (common) add(kBinary, uniform(op_, DType::kInt64));  // positions
    if (op_ == LoweredOp::kPow) add(kArithmetic[0], uniform(op_, DType::kFloat32));
  }

  void arithmetic() {
    binary();
    add(kArithmetic, kModelDtypes);
    const Layout flat = kBinary[0];
    for (DType t : kModelDtypes) {
      add(flat, uniform(op_, t), true);
      add({"ab", {"a_b", "a_b"}}, uniform(op_, t), true);
    }
    constexpr DType kF32 = DType::kFloat32;
    for (DType half : {DType::kBFloat16, DType::kFloat16}) {
      add(kBinary, Types{{half, kF32}, kF32, kF32});
      add(kBinary, Types{{kF32, half}, kF32, kF32});
      for (const Layout& l : {flat, kBinary[6], kBinary[7]}) {
        add(l, {{half, kF32}, kF32, half});  // in place
      }
      // A tensor without dims does not promote others.
      add({"a", {"a", ""}}, {{half, kF32}, half, half});
      add({"ab", {"a_b", ""}}, {{half, kF32}, half, half});
    }
    const std::span basic(kBinary, kBinaryBasic);
    for (DType t : {DType::kBool, DType::kInt64, DType::kInt32}) {
      for (DType model : kModelDtypes) {
        add(basic, Types{{t, model}, model, model});
        add(basic, Types{{model, t}, model, model});
      }
      // Integers and a fraction, or the quotient of integers.
      for (const Layout& l : {flat, kBinary[1], kBinary[5], kArithmetic[0]}) {
        add(l, {{t, t}, kF32, kF32});
      }
    }
    add(flat, {{DType::kBool, DType::kInt64}, DType::kInt64, DType::kInt64});
    add(flat, {{DType::kInt64, DType::kBool}, DType::kInt64, DType::kInt64});
  }

  void fill() {
    add(kFill, kModelDtypes);
    add(kFill, kOtherDtypes);
  }

  void copy() {
    constexpr DType kAll[] = {DType::kBool,    DType::kUInt8,  DType::kInt8,    DType::kInt16,
                              DType::kInt32,   DType::kInt64,  DType::kFloat16, DType::kBFloat16,
                              DType::kFloat32, DType::kFloat64};
    for (DType from : kAll) {
      for (DType to : kAll) add(kUnaryPlain, cast(from, to));
    }
    for (DType t : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt64, DType::kBool,
                    DType::kFloat64, DType::kInt32}) {
      const bool model = std::ranges::count(kModelDtypes, t) > 0;
      rearrange(cast(t, t), model ? 6 : 4);
      add(kExpand, cast(t, t));
    }
    for (DType half : {DType::kBFloat16, DType::kFloat16}) {
      for (const Types& types : {cast(DType::kFloat32, half), cast(half, DType::kFloat32)}) {
        rearrange(types, 4);
        add(kExpand, types);
      }
    }
    for (DType t : kModelDtypes) {
      add(kExpand, cast(DType::kBool, t));
      add(kExpand, cast(DType::kInt64, t));
      add(kUnaryStrided, cast(DType::kBool, t));
      add(kUnaryStrided, cast(DType::kInt64, t));
    }
  }

 private:
  static Types cast(DType from, DType to) { return {{from}, to, to}; }

  // Contiguous results of transposed, strided and sliced inputs.
  void rearrange(const Types& types, size_t max_rank) {
    add(kUnaryStrided, types);
    add({"abcd", {"a_b_c_d"}}, types);
    add({"abc", {"a_b_c_"}}, types);
    add({"a", {"a_"}, "a_"}, types);
    for (size_t rank = 2; rank <= max_rank; ++rank) {
      const std::string shape = std::string("abcdef").substr(0, rank);
      std::string order = shape;
      while (std::next_permutation(order.begin(), order.end())) {
        add({shape.c_str(), {order.c_str()}}, types);
        if (rank <= 4) add({shape.c_str(), {(order + "_").c_str()}}, types);
      }
    }
  }

  ShippedCollector& c_;
  const LoweredOp op_;
  const OpInfo& info_;
};

}  // namespace

void ship_pointwise(ShippedCollector& c, LoweredOp op) {
  Pointwise p(c, op);
  switch (op) {
    case LoweredOp::kCopy:
      return p.copy();
    case LoweredOp::kFill:
      return p.fill();
    case LoweredOp::kAdd:
    case LoweredOp::kSub:
    case LoweredOp::kMul:
    case LoweredOp::kDiv:
      return p.arithmetic();
    case LoweredOp::kWhere:
      p.add(kWhere, kModelDtypes);
      return p.add(std::span(kWhere, 9), kOtherDtypes);
    case LoweredOp::kMaskedFill:
      return p.masked_fill();
    default:
      break;
  }
  switch (op_info(op_id(op)).operands) {
    case 1:
      return p.unary();
    case 2:
      return p.binary();
    case 3:
      p.add(kTernary, kModelDtypes);
      return p.add(std::span(kTernary, 1), kOtherDtypes);
    case 4:
      return p.add(kQuaternary, kModelDtypes);
    default:
      return;
  }
}

}  // namespace neuron
