// SPDX-License-Identifier: Apache-2.0
//
// Graph: the computation of one kernel, or of one operation, as SSA values over named axes.
//
// A graph has up to kMaxAxes axes: `parallel_axes` independent ones, then `row_axes` that
// reductions run over; none for a single element. A value has a dtype and the set of axes that it
// varies over; combining values with different sets broadcasts, and a reduction removes the row
// axes. There are no sizes, strides or layouts: views, transpositions and reshapes are the naming
// of axes, and memory belongs to the plan. The operations mean what StableHLO's operations of the
// same kind mean.
//
// Numbers. Every value is rounded to its dtype. An operation that PyTorch computes in a wider type
// converts, computes and converts back explicitly.
//
// Order. All inputs are read before any output is written, per point of the axes: an output may be
// the memory of an input that is accessed in the same way.
//
// A graph is a value. GraphBuilder makes graphs; equal pure values become one.
//
//   GraphBuilder b(/*parallel_axes=*/1, /*row_axes=*/1);
//   ValueId x = b.convert(DType::kFloat32, b.input(b.add_input(DType::kBFloat16, 0b11)));
//   ValueId e = b.unary(IrOp::kExp, b.binary(IrOp::kSub, x, b.reduce(IrOp::kReduceMax, x)));
//   b.output(b.convert(DType::kBFloat16, b.binary(IrOp::kDiv, e, b.reduce(IrOp::kReduceSum, e))),
//   0b11); Graph softmax = b.finish();
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "neuron/ir/dtype.h"

namespace neuron {

constexpr int kMaxAxes = 6;
using AxisMask = uint8_t;  // bit i = axis i

enum class IrOpClass : uint8_t {
  kLeaf,
  kUnary,
  kBinary,
  kCompare,
  kTernary,
  kReduce,
  kScan,
  kGather
};

// X(enumerator, text, class). Meanings where they are not obvious are those of the kernel
// operations of the same names in host/loop_nest.h. Append only: the text is part of stored keys.
// clang-format off
#define NEURON_IR_LEAVES(X)                                                                        \
  X(Input, "input", Leaf)        /* element of input `attr` */                                     \
  X(Scalar, "scalar", Leaf)      /* run-time scalar `attr` */                                      \
  X(Constant, "constant", Leaf)  /* `bits` of the dtype */                                         \
  X(Index, "index", Leaf)        /* i64 position along axis `attr` */                              \
  X(Extent, "extent", Leaf)      /* i64 size of axis `attr` */
#define NEURON_IR_COMPUTE(X)                                                                       \
  X(Cast, "convert", Unary) X(Bitcast, "bitcast", Unary)                                           \
  X(Neg, "negate", Unary) X(Abs, "abs", Unary) X(Sign, "sign", Unary) X(Not, "not", Unary)         \
  X(Floor, "floor", Unary) X(Ceil, "ceil", Unary) X(Round, "round_even", Unary)                    \
  X(Trunc, "trunc", Unary) X(Sqrt, "sqrt", Unary) X(Rsqrt, "rsqrt", Unary)                         \
  X(Reciprocal, "reciprocal", Unary) X(Exp, "exponential", Unary) X(Exp2, "exp2", Unary)           \
  X(Expm1, "expm1", Unary) X(Log, "log", Unary) X(Log2, "log2", Unary) X(Log10, "log10", Unary)    \
  X(Log1p, "log1p", Unary) X(Tanh, "tanh", Unary) X(Sinh, "sinh", Unary) X(Cosh, "cosh", Unary)    \
  X(Sin, "sine", Unary) X(Cos, "cosine", Unary) X(Tan, "tan", Unary) X(Asin, "asin", Unary)        \
  X(Acos, "acos", Unary) X(Atan, "atan", Unary) X(Asinh, "asinh", Unary) X(Acosh, "acosh", Unary)  \
  X(Atanh, "atanh", Unary) X(Erf, "erf", Unary) X(Erfc, "erfc", Unary) X(Erfinv, "erfinv", Unary)  \
  X(Sigmoid, "logistic", Unary) X(Lgamma, "lgamma", Unary) X(Digamma, "digamma", Unary)            \
  X(Add, "add", Binary) X(Sub, "subtract", Binary) X(Mul, "multiply", Binary)                      \
  X(Div, "divide", Binary) X(TruncDiv, "trunc_divide", Binary)                                     \
  X(FloorDiv, "floor_divide", Binary) X(Fmod, "fmod", Binary) X(Remainder, "remainder", Binary)    \
  X(Max, "maximum", Binary) X(Min, "minimum", Binary) X(Fmax, "fmax", Binary)                      \
  X(Fmin, "fmin", Binary) X(Pow, "power", Binary) X(Atan2, "atan2", Binary)                        \
  X(Copysign, "copysign", Binary) X(Hypot, "hypot", Binary) X(NextAfter, "nextafter", Binary)      \
  X(And, "and", Binary) X(Or, "or", Binary) X(Xor, "xor", Binary) X(Shl, "shift_left", Binary)     \
  X(Shr, "shift_right", Binary)                                                                    \
  X(WrapIndex, "wrap_index", Binary) X(CheckIndex, "check_index", Binary)                          \
  X(Eq, "eq", Compare) X(Ne, "ne", Compare) X(Lt, "lt", Compare) X(Le, "le", Compare)              \
  X(Gt, "gt", Compare) X(Ge, "ge", Compare)                                                        \
  X(Select, "select", Ternary) X(Fma, "fma", Ternary)                                              \
  X(ReduceSum, "reduce_add", Reduce) X(ReduceProd, "reduce_multiply", Reduce)                      \
  X(ReduceMax, "reduce_max", Reduce) X(ReduceMin, "reduce_min", Reduce)                            \
  X(ReduceAnd, "reduce_and", Reduce) X(ReduceOr, "reduce_or", Reduce)                              \
  X(ArgMax, "arg_max", Reduce) X(ArgMin, "arg_min", Reduce)                                        \
  X(ScanSum, "scan_add", Scan) X(ScanProd, "scan_multiply", Scan)                                  \
  X(Philox, "philox", Ternary)   /* i32: word `attr` of the block; key, counter low, high: i64 */  \
  X(ScanMax, "scan_max", Scan) X(ScanMin, "scan_min", Scan)
// Element of input `attr` that lies args[0] elements (i64) behind the one of its axes, or 0 where
// args[1] is given and false: nothing is read there.
#define NEURON_IR_MEMORY(X) X(Gather, "gather", Gather)
// clang-format on

enum class IrOp : uint8_t {
#define NEURON_IR_OP_ENUM(op, text, cls) k##op,
  NEURON_IR_LEAVES(NEURON_IR_OP_ENUM) NEURON_IR_COMPUTE(NEURON_IR_OP_ENUM)
      NEURON_IR_MEMORY(NEURON_IR_OP_ENUM)
#undef NEURON_IR_OP_ENUM
};

const char* name(IrOp op);
IrOpClass op_class(IrOp op);

using ValueId = int32_t;
constexpr ValueId kNoValue = -1;

struct Value {
  IrOp op = IrOp::kConstant;
  DType dtype = DType::kFloat32;
  AxisMask axes = 0;
  int32_t attr = 0;
  std::array<ValueId, 3> args{kNoValue, kNoValue, kNoValue};
  uint64_t bits = 0;  // kConstant: zero-extended

  bool operator==(const Value&) const = default;
};

// An array with one element per point of its axes.
struct GraphInput {
  DType dtype;
  AxisMask axes;
  bool operator==(const GraphInput&) const = default;
};

// How a scattered output takes a value up.
enum class Combine : uint8_t { kStore, kAdd, kMul, kMax, kMin };

// A plain output has an element per point of its axes, at least those of its value. A scattered
// output writes `value`, where `mask` holds, `offset` elements (i64) behind the element of `axes`,
// for every point of the graph's axes. Along row axes that it lacks it does so in the order of the
// rows, each step rounded to the dtype; different points of the parallel axes never meet.
struct GraphOutput {
  ValueId value;
  AxisMask axes;
  Combine combine = Combine::kStore;
  ValueId offset = kNoValue;  // scattered
  ValueId mask = kNoValue;

  bool scattered() const { return offset != kNoValue; }
  bool operator==(const GraphOutput&) const = default;
};

struct Graph {
  int parallel_axes = 1;
  int row_axes = 0;
  std::vector<GraphInput> inputs;
  std::vector<DType> scalars;
  std::vector<Value> values;
  std::vector<GraphOutput> outputs;

  int axes() const { return parallel_axes + row_axes; }
  AxisMask parallel_mask() const { return static_cast<AxisMask>((1u << parallel_axes) - 1); }
  AxisMask row_mask() const {
    return static_cast<AxisMask>(((1u << axes()) - 1) & ~((1u << parallel_axes) - 1));
  }
  AxisMask all_mask() const { return static_cast<AxisMask>((1u << axes()) - 1); }
  bool operator==(const Graph&) const = default;
};

// One line per axis list, input, scalar, value and output; see graph_text.cpp.
std::string to_text(const Graph& graph);
// Reads what to_text writes; throws kInvalidArgument naming the line. Does not verify.
Graph parse_graph(std::string_view text);

// Empty, or the first broken rule in words.
std::string verify_message(const Graph& graph);
// Throws kInternal with verify_message.
void verify(const Graph& graph);

// Not thread-safe.
class GraphBuilder {
 public:
  GraphBuilder(int parallel_axes, int row_axes);

  int add_input(DType dtype, AxisMask axes);
  int add_scalar(DType dtype);

  ValueId input(int number);
  ValueId scalar(int number);
  // f16 and bf16 constants are converted ones of f32.
  ValueId constant(DType dtype, double value);
  ValueId constant_int(DType dtype, int64_t value);
  ValueId index(int axis);
  ValueId extent(int axis);

  ValueId convert(DType dtype, ValueId value);  // the value itself if it has the dtype
  ValueId bitcast(DType dtype, ValueId value);
  ValueId unary(IrOp op, ValueId value);
  ValueId binary(IrOp op, ValueId a, ValueId b);  // also the compares
  ValueId select(ValueId condition, ValueId a, ValueId b);
  ValueId fma(ValueId a, ValueId b, ValueId c);
  ValueId philox(ValueId key, ValueId counter_low, ValueId counter_high, int word);
  ValueId reduce(IrOp op, ValueId value);
  ValueId scan(IrOp op, ValueId value);
  ValueId gather(int input, ValueId offset, ValueId mask = kNoValue);

  // Returns the output's number.
  int output(ValueId value, AxisMask axes);
  int output(const GraphOutput& output);

  // Adds the values of `other`, whose axis i is split into axis_map[i] here, outer first, whose
  // input i is the value inputs[i] (the input itself where it is gathered from) and whose scalar i
  // is scalar scalars[i] here. Returns its outputs with the values here and the axes there.
  std::vector<GraphOutput> append(const Graph& other, const std::vector<std::vector<int>>& axis_map,
                                  const std::vector<ValueId>& inputs,
                                  const std::vector<int>& scalars);

  const Value& value(ValueId id) const { return graph_.values[static_cast<size_t>(id)]; }
  DType dtype(ValueId id) const { return value(id).dtype; }
  const Graph& graph() const { return graph_; }

  // The verified graph, without values that no output needs. The builder is empty afterwards.
  Graph finish();

 private:
  ValueId add(Value value);
  ValueId position(const std::vector<int>& axes);  // along an axis that is split into these
  ValueId length(const std::vector<int>& axes);

  Graph graph_;
  std::map<std::array<int64_t, 7>, ValueId> known_;  // by content
};

}  // namespace neuron
