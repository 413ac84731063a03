// SPDX-License-Identifier: Apache-2.0
//
// LoopNest: one kernel of the host target as data, free of concrete sizes.
//
// A nest is an iteration space of up to six dims, operands addressed by those dims, and a body in
// SSA form. Extents, strides, pointers and scalars are run-time arguments (host/kernel_args.h), so
// one nest serves every shape with the same structure. `to_text` is canonical: equal text means
// equal kernel, and it is what the kernel store keys.
//
// Iteration space. Dims are ordered outermost first: `parallel_rank` parallel dims, then `row_rank`
// row dims (the dims that reductions and scans run over). Adjacent dims should be collapsed as far
// as all operands allow: it is faster, and finds more kernels in the store.
//
//   schedule     vector dim      work item                 body may hold
//   kPointwise   last parallel   one element               no reduction or scan; row_rank == 0
//   kRow         last row        one row                   any number of passes over the row
//   kSplit       last row        one fixed chunk of a row  reductions of one pass
//   kColumn      last parallel   rows x columns block      reductions of one pass
//   kSequential  last parallel   a block of columns        any passes; rows are visited in order
//   kHorizontal  the only dim    chunk of one table item   as kPointwise; rank 1, strides 0 or 1
//
// kRow is for softmax, norms and their backward: the row stays in cache between its passes. kSplit
// is the same reduction for long rows (a full reduction is kSplit with parallel_rank == 0) and
// gives the same bits as kRow. kColumn reduces over the outer dims of row-major data. kSequential
// is for scans over outer dims, softmax over outer dims, and scatters whose order must be kept.
// kHorizontal runs one body over a table of tensors (foreach, fused optimizers).
//
// Body. Nodes are in SSA order; a node's arguments have smaller numbers. Which dims a node varies
// over follows from its operands: a node that does not vary over the row dims is computed once per
// row, so `sub(x, reduce_max(x))` simply means "second pass". Values that a later pass needs again
// are recomputed when cheap and kept in a row buffer otherwise; neither changes bits.
//
// Numbers. Every node's result is exactly of its dtype: bf16 and f16 nodes compute in f32 and round
// (nearest even) at each node. Where PyTorch keeps f32 inside one ATen op (gelu, layer norm), cast
// up, use f32 nodes, and cast down once. Nothing is contracted or reassociated; reductions follow a
// tree fixed by the schedule family and the extents of the row dims (docs/numerics.md). To keep
// that tree independent of fusion, the row dims must be the reducing op's own dims, merged where
// adjacent in the op's logical shape, and never split or merged because of an operand's strides.
//
// A nest is a value: copyable, no global state, thread-compatible.
//
//   NestBuilder b(Schedule::kRow, /*parallel_rank=*/1, /*row_rank=*/1);       // softmax, bf16
//   int in = b.operand(DType::kBFloat16, {Stride::kAny, Stride::kUnit});
//   int out = b.operand(DType::kBFloat16, {Stride::kAny, Stride::kUnit});
//   NodeId x = b.cast(DType::kFloat32, b.load(in));
//   NodeId e = b.unary(NestOp::kExp, b.binary(NestOp::kSub, x, b.reduce(NestOp::kReduceMax, x)));
//   NodeId y = b.binary(NestOp::kDiv, e, b.reduce(NestOp::kReduceSum, e));
//   b.store(out, b.cast(DType::kBFloat16, y));
//   LoopNest nest = b.finish();                                              // verified
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "neuron/ir/dtype.h"

namespace neuron {

constexpr int kMaxNestRank = 6;

enum class Schedule : uint8_t { kPointwise, kRow, kSplit, kColumn, kSequential, kHorizontal };

// Stride of an operand along a dim: 0 (broadcast), 1 (in elements), or given at run time.
enum class Stride : uint8_t { kZero, kUnit, kAny };

// What kind of node an op makes; fixes its arguments.
enum class NestOpClass : uint8_t {
  kLeaf,
  kUnary,
  kBinary,
  kCompare,
  kTernary,
  kReduce,
  kScan,
  kEffect
};

// X(enumerator, text, class). Text is part of stored keys: append only, never change a meaning
// without changing the text.
// clang-format off
#define NEURON_NEST_OPS(X)                                                                         \
  /* leaves */                                                                                     \
  X(Load, "load", Leaf)          /* operand `attr` [at offset args[0]] [if args[1], else 0] */     \
  X(Scalar, "scalar", Leaf)      /* run-time scalar `attr` */                                      \
  X(Constant, "const", Leaf)     /* `bits` of the dtype */                                         \
  X(Index, "index", Leaf)        /* i64 position in dim `attr` */                                  \
  X(Extent, "extent", Leaf)      /* i64 extent of dim `attr` */                                    \
  /* unary: dtype of the argument unless said */                                                   \
  X(Cast, "cast", Unary)         /* value conversion; float to int truncates, through i32 for the \
                                    narrow types; out of range and NaN give the smallest i32, i64; \
                                    to i1: not equal to 0 */                                       \
  X(Bitcast, "bitcast", Unary)   /* same element size */                                           \
  X(Neg, "neg", Unary) X(Abs, "abs", Unary) X(Sign, "sign", Unary) X(Not, "not", Unary)            \
  X(Floor, "floor", Unary) X(Ceil, "ceil", Unary) X(Round, "round", Unary)  /* half to even */     \
  X(Trunc, "trunc", Unary) X(Sqrt, "sqrt", Unary) X(Rsqrt, "rsqrt", Unary)                         \
  X(Reciprocal, "reciprocal", Unary) X(Exp, "exp", Unary) X(Exp2, "exp2", Unary)                   \
  X(Expm1, "expm1", Unary) X(Log, "log", Unary) X(Log2, "log2", Unary) X(Log10, "log10", Unary)    \
  X(Log1p, "log1p", Unary) X(Tanh, "tanh", Unary) X(Sinh, "sinh", Unary) X(Cosh, "cosh", Unary)    \
  X(Sin, "sin", Unary) X(Cos, "cos", Unary) X(Tan, "tan", Unary) X(Asin, "asin", Unary)            \
  X(Acos, "acos", Unary) X(Atan, "atan", Unary) X(Asinh, "asinh", Unary) X(Acosh, "acosh", Unary)  \
  X(Atanh, "atanh", Unary) X(Erf, "erf", Unary) X(Erfc, "erfc", Unary) X(Erfinv, "erfinv", Unary)  \
  X(Sigmoid, "sigmoid", Unary) X(Lgamma, "lgamma", Unary) X(Digamma, "digamma", Unary)             \
  /* binary: both arguments and the result have one dtype */                                       \
  X(Add, "add", Binary) X(Sub, "sub", Binary) X(Mul, "mul", Binary)  /* ints wrap; i1: or, and */ \
  X(Div, "div", Binary)          /* floating only */                                               \
  X(TruncDiv, "truncdiv", Binary) X(FloorDiv, "floordiv", Binary)  /* int by 0: status, result 0 */\
  X(Fmod, "fmod", Binary) X(Remainder, "remainder", Binary)        /* sign of dividend, divisor */ \
  X(Max, "max", Binary) X(Min, "min", Binary)                      /* NaN wins */                  \
  X(Fmax, "fmax", Binary) X(Fmin, "fmin", Binary)                  /* NaN loses */                 \
  X(Pow, "pow", Binary) X(Atan2, "atan2", Binary) X(Copysign, "copysign", Binary)                  \
  X(Hypot, "hypot", Binary) X(NextAfter, "nextafter", Binary)                                      \
  X(And, "and", Binary) X(Or, "or", Binary) X(Xor, "xor", Binary)  /* integral */                  \
  X(Shl, "shl", Binary) X(Shr, "shr", Binary)  /* count out of range: 0, or sign for signed shr */ \
  X(WrapIndex, "wrapindex", Binary)            /* i64 (index, extent): negative counts from the    \
                                                  end; out of range sets the status, result 0 */   \
  X(CheckIndex, "checkindex", Binary)          /* i64 (index, extent): as wrapindex, but negative \
                                                  is out of range */                               \
  /* compare: arguments of one dtype, result i1 */                                                 \
  X(Eq, "eq", Compare) X(Ne, "ne", Compare) X(Lt, "lt", Compare) X(Le, "le", Compare)              \
  X(Gt, "gt", Compare) X(Ge, "ge", Compare)                                                        \
  /* ternary */                                                                                    \
  X(Select, "select", Ternary)   /* i1, a, b */                                                    \
  X(Fma, "fma", Ternary)         /* f32, f64: a * b + c, one rounding */                           \
  X(Philox, "philox", Ternary)   /* i32 random bits: word `attr` (0-3) of Philox4x32-10 with key   \
                                    args[0], counter (args[1] low, args[2] high), all i64 */       \
  /* over the row dims; sum, prod not in f16, bf16; arg*: i64, first of equals, NaN wins */ \
  X(ReduceSum, "reduce_sum", Reduce) X(ReduceProd, "reduce_prod", Reduce)                          \
  X(ReduceMax, "reduce_max", Reduce) X(ReduceMin, "reduce_min", Reduce)                            \
  X(ReduceAnd, "reduce_and", Reduce) X(ReduceOr, "reduce_or", Reduce)                              \
  X(ArgMax, "arg_max", Reduce) X(ArgMin, "arg_min", Reduce)                                        \
  X(ScanSum, "scan_sum", Scan) X(ScanProd, "scan_prod", Scan)          /* inclusive, in order */   \
  X(ScanMax, "scan_max", Scan) X(ScanMin, "scan_min", Scan)                                        \
  /* effects: value args[0] to operand `attr` [at offset args[1]] [if args[2]]; the value must not \
     vary over dims along which the operand has stride 0, unless the rows are visited in order */  \
  X(Store, "store", Effect)                                                                        \
  /* kSequential and kRow; the memory is the first argument, each step rounds */                   \
  X(StoreAdd, "store_add", Effect) X(StoreMul, "store_mul", Effect)                                \
  X(StoreMax, "store_max", Effect) X(StoreMin, "store_min", Effect)
// clang-format on

enum class NestOp : uint8_t {
#define NEURON_NEST_OP_ENUM(op, text, cls) k##op,
  NEURON_NEST_OPS(NEURON_NEST_OP_ENUM)
#undef NEURON_NEST_OP_ENUM
};

const char* name(NestOp op);
const char* name(Schedule s);
NestOpClass op_class(NestOp op);

using NodeId = int32_t;
constexpr NodeId kNoNode = -1;

struct NestNode {
  NestOp op = NestOp::kConstant;
  DType dtype = DType::kFloat32;  // of the result; of the stored value for effects
  int32_t attr = 0;               // operand, scalar, dim or word, see the op list
  std::array<NodeId, 3> args{kNoNode, kNoNode, kNoNode};
  uint64_t bits = 0;  // kConstant: the value's bits, zero-extended

  bool operator==(const NestNode&) const = default;
};

// An operand is an address plus strides. An offset argument of a load or store is an i64 node in
// units of the operand's run-time `index_stride` (elements) and comes on top of the strides.
// Stores at computed places keep the order of the rows (kSequential, kRow) and, along a row, of its
// elements; different points of the parallel dims must not meet.
struct NestOperand {
  DType dtype = DType::kFloat32;
  std::array<Stride, kMaxNestRank> strides{};  // first `rank()` entries count

  bool operator==(const NestOperand&) const = default;
};

struct LoopNest {
  Schedule schedule = Schedule::kPointwise;
  int parallel_rank = 1;
  int row_rank = 0;
  std::vector<NestOperand> operands;
  std::vector<DType> scalars;  // run-time scalars
  std::vector<NestNode> nodes;

  int rank() const { return parallel_rank + row_rank; }
  // The dim that 16 neighbouring elements of a vector differ in.
  int vector_dim() const {
    return schedule == Schedule::kRow || schedule == Schedule::kSplit ? rank() - 1
                                                                      : parallel_rank - 1;
  }
  bool operator==(const LoopNest&) const = default;
};

// Canonical text, one line per operand, scalar and node.
std::string to_text(const LoopNest& nest);

// Reads what to_text writes; throws kInvalidArgument naming the line. Does not verify.
LoopNest parse_loop_nest(std::string_view text);

// Empty, or the first broken rule in words ("node 4 (add): arguments are f32 and bf16").
std::string verify_message(const LoopNest& nest);

// Throws kInternal with verify_message.
void verify(const LoopNest& nest);

// Builds a nest; equal pure nodes become one node. Not thread-safe.
class NestBuilder {
 public:
  NestBuilder(Schedule schedule, int parallel_rank, int row_rank);

  // Declarations; return the operand's or scalar's number.
  int operand(DType dtype, const std::vector<Stride>& strides);
  int scalar_slot(DType dtype);

  // Leaves. Constants are converted to the dtype as `static_cast` would, with rounding for f16,
  // bf16.
  NodeId load(int operand, NodeId offset = kNoNode, NodeId mask = kNoNode);
  NodeId scalar(int slot);
  NodeId constant(DType dtype, double value);
  NodeId constant_int(DType dtype, int64_t value);
  NodeId constant_bits(DType dtype, uint64_t bits);  // as they are, zero-extended
  NodeId index(int dim);
  NodeId extent(int dim);

  // Values. The result's dtype follows from the op; `cast` to the same dtype is the value itself.
  NodeId cast(DType dtype, NodeId value);
  NodeId bitcast(DType dtype, NodeId value);
  NodeId unary(NestOp op, NodeId value);
  NodeId binary(NestOp op, NodeId a, NodeId b);  // also the compares
  NodeId select(NodeId condition, NodeId a, NodeId b);
  NodeId fma(NodeId a, NodeId b, NodeId c);
  NodeId philox(NodeId key, NodeId counter_low, NodeId counter_high, int word);
  NodeId reduce(NestOp op, NodeId value);
  NodeId scan(NestOp op, NodeId value);

  // Effects.
  void store(int operand, NodeId value, NodeId offset = kNoNode, NodeId mask = kNoNode);
  void store_combine(NestOp op, int operand, NodeId value, NodeId offset = kNoNode,
                     NodeId mask = kNoNode);

  DType dtype(NodeId node) const { return nest_.nodes[node].dtype; }

  // The verified nest. The builder is empty afterwards.
  LoopNest finish();

 private:
  NodeId add(NestNode node);

  LoopNest nest_;
  std::map<std::array<int64_t, 7>, NodeId> known_;  // pure nodes by content
};

}  // namespace neuron
