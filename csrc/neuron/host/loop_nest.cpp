// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/loop_nest.h"

#include "neuron/base/error.h"
#include "neuron/host/loop_nest_analysis.h"

namespace neuron {
namespace {

constexpr const char* kOpNames[] = {
#define NEURON_NEST_OP_NAME(op, text, cls) text,
    NEURON_NEST_OPS(NEURON_NEST_OP_NAME)
#undef NEURON_NEST_OP_NAME
};

constexpr NestOpClass kOpClasses[] = {
#define NEURON_NEST_OP_CLASS(op, text, cls) NestOpClass::k##cls,
    NEURON_NEST_OPS(NEURON_NEST_OP_CLASS)
#undef NEURON_NEST_OP_CLASS
};

bool is_half(DType t) { return t == DType::kFloat16 || t == DType::kBFloat16; }
bool is_nest_dtype(DType t) { return t <= DType::kFloat64; }

// Checks one nest; `message` keeps the first broken rule.
class Verifier {
 public:
  explicit Verifier(const LoopNest& nest) : nest_(nest) {}

  std::string run() {
    check_space();
    for (size_t k = 0; k < nest_.operands.size() && message_.empty(); ++k) check_operand(k);
    for (DType t : nest_.scalars)
      if (!is_nest_dtype(t)) fail(std::string("scalar of dtype ") + neuron::name(t));
    bool has_effect = false;
    for (size_t n = 0; n < nest_.nodes.size() && message_.empty(); ++n) {
      check_node(static_cast<NodeId>(n));
      has_effect |= op_class(nest_.nodes[n].op) == NestOpClass::kEffect;
    }
    if (!has_effect) fail("the nest stores nothing");
    if (message_.empty()) check_structure();
    return message_;
  }

 private:
  void fail(const std::string& text) {
    if (message_.empty()) message_ = text;
  }
  void fail_node(NodeId id, const std::string& text) {
    fail("node " + std::to_string(id) + " (" + neuron::name(nest_.nodes[id].op) + "): " + text);
  }
  void require(NodeId id, bool ok, const std::string& text) {
    if (!ok) fail_node(id, text);
  }

  void check_space() {
    const LoopNest& n = nest_;
    if (n.parallel_rank < 0 || n.row_rank < 0 || n.rank() < 1 || n.rank() > kMaxNestRank)
      return fail("rank must be 1 to " + std::to_string(kMaxNestRank));
    bool rows = n.schedule == Schedule::kRow || n.schedule == Schedule::kSplit;
    bool flat = n.schedule == Schedule::kPointwise || n.schedule == Schedule::kHorizontal;
    if (flat && n.row_rank != 0) fail(std::string(neuron::name(n.schedule)) + " has no row dims");
    if (!flat && n.row_rank == 0) fail(std::string(neuron::name(n.schedule)) + " needs a row dim");
    if (!rows && n.parallel_rank == 0)
      fail(std::string(neuron::name(n.schedule)) + " needs a parallel dim");
    if (n.schedule == Schedule::kHorizontal && n.rank() != 1) fail("horizontal has rank 1");
  }

  void check_operand(size_t k) {
    const NestOperand& o = nest_.operands[k];
    if (!is_nest_dtype(o.dtype))
      fail("operand " + std::to_string(k) + ": no kernels for " + neuron::name(o.dtype));
    if (nest_.schedule == Schedule::kHorizontal && o.strides[0] == Stride::kAny)
      fail("operand " + std::to_string(k) + ": horizontal strides are 0 or 1");
  }

  void check_node(NodeId id) {
    const NestNode& n = nest_.nodes[id];
    require(id, is_nest_dtype(n.dtype), std::string("no kernels for ") + neuron::name(n.dtype));
    for (NodeId a : n.args) {
      if (a == kNoNode) continue;
      require(id, a >= 0 && a < id, "argument " + std::to_string(a) + " is not an earlier node");
      if (!message_.empty()) return;
      require(id, op_class(nest_.nodes[a].op) != NestOpClass::kEffect,
              "argument " + std::to_string(a) + " has no value");
    }
    switch (op_class(n.op)) {
      case NestOpClass::kLeaf:
        return check_leaf(id);
      case NestOpClass::kUnary:
        return check_unary(id);
      case NestOpClass::kBinary:
        return check_binary(id);
      case NestOpClass::kCompare:
        if (!check_arity(id, 2)) return;
        return require(id, n.dtype == DType::kBool && arg_type(id, 0) == arg_type(id, 1),
                       "compares two values of one dtype and gives i1" + arg_text(id));
      case NestOpClass::kTernary:
        return check_ternary(id);
      case NestOpClass::kReduce:
      case NestOpClass::kScan:
        return check_over_rows(id);
      case NestOpClass::kEffect:
        return check_effect(id);
    }
  }

  DType arg_type(NodeId id, int k) const { return nest_.nodes[nest_.nodes[id].args[k]].dtype; }
  std::string arg_text(NodeId id) const {
    std::string text = "; arguments are";
    for (NodeId a : nest_.nodes[id].args)
      if (a != kNoNode) text += std::string(" ") + neuron::name(nest_.nodes[a].dtype);
    return text + ", result " + neuron::name(nest_.nodes[id].dtype);
  }
  bool check_arity(NodeId id, int count) {
    for (int k = 0; k < 3; ++k)
      require(id, (nest_.nodes[id].args[k] != kNoNode) == (k < count),
              "takes " + std::to_string(count) + " arguments");
    return message_.empty();
  }
  void check_attr(NodeId id, int64_t limit, const char* what) {
    int32_t a = nest_.nodes[id].attr;
    require(id, a >= 0 && a < limit, std::string("no ") + what + " " + std::to_string(a));
  }

  // Offset and mask of a load or store at args[first].
  void check_access(NodeId id, int offset, int mask) {
    const NestNode& n = nest_.nodes[id];
    if (n.args[offset] != kNoNode)
      require(id, arg_type(id, offset) == DType::kInt64, "the offset must be i64");
    if (n.args[mask] != kNoNode)
      require(id, arg_type(id, mask) == DType::kBool, "the mask must be i1");
    check_attr(id, static_cast<int64_t>(nest_.operands.size()), "operand");
    if (message_.empty())
      require(id, nest_.operands[n.attr].dtype == n.dtype,
              std::string("operand is ") + neuron::name(nest_.operands[n.attr].dtype) +
                  ", node is " + neuron::name(n.dtype));
  }

  void check_leaf(NodeId id) {
    const NestNode& n = nest_.nodes[id];
    switch (n.op) {
      case NestOp::kLoad:
        require(id, n.args[2] == kNoNode, "takes an offset and a mask");
        return check_access(id, 0, 1);
      case NestOp::kScalar:
        check_attr(id, static_cast<int64_t>(nest_.scalars.size()), "scalar");
        if (message_.empty())
          require(id, nest_.scalars[n.attr] == n.dtype, "differs from its scalar's dtype");
        break;
      case NestOp::kIndex:
      case NestOp::kExtent:
        check_attr(id, nest_.rank(), "dim");
        require(id, n.dtype == DType::kInt64, "result must be i64");
        break;
      default: {
        size_t size = element_size(n.dtype);
        require(id, size == 8 || n.bits >> (8 * size) == 0, "bits beyond the dtype");
        require(id, n.dtype != DType::kBool || n.bits <= 1, "i1 is 0 or 1");
      }
    }
    check_arity(id, 0);
  }

  void check_unary(NodeId id) {
    const NestNode& n = nest_.nodes[id];
    if (!check_arity(id, 1)) return;
    DType a = arg_type(id, 0);
    if (n.op == NestOp::kCast) return;
    if (n.op == NestOp::kBitcast)
      return require(
          id,
          element_size(a) == element_size(n.dtype) && a != DType::kBool && n.dtype != DType::kBool,
          "needs equal element sizes, not i1" + arg_text(id));
    require(id, a == n.dtype, "argument and result have one dtype" + arg_text(id));
    if (n.op == NestOp::kNot)
      require(id, is_integral(a), "takes integers" + arg_text(id));
    else if (n.op != NestOp::kNeg && n.op != NestOp::kAbs && n.op != NestOp::kSign)
      require(id, is_floating(a), "takes floating values" + arg_text(id));
    if (n.op == NestOp::kNeg || n.op == NestOp::kAbs || n.op == NestOp::kSign)
      require(id, a != DType::kBool, "does not take i1");
  }

  void check_binary(NodeId id) {
    const NestNode& n = nest_.nodes[id];
    if (!check_arity(id, 2)) return;
    require(id, arg_type(id, 0) == n.dtype && arg_type(id, 1) == n.dtype,
            "arguments and result have one dtype" + arg_text(id));
    switch (n.op) {
      case NestOp::kDiv:
      case NestOp::kFmax:
      case NestOp::kFmin:
      case NestOp::kPow:
      case NestOp::kAtan2:
      case NestOp::kCopysign:
      case NestOp::kHypot:
      case NestOp::kNextAfter:
        return require(id, is_floating(n.dtype), "takes floating values" + arg_text(id));
      case NestOp::kAnd:
      case NestOp::kOr:
      case NestOp::kXor:
        return require(id, is_integral(n.dtype), "takes integers" + arg_text(id));
      case NestOp::kShl:
      case NestOp::kShr:
        return require(id, is_integral(n.dtype) && n.dtype != DType::kBool, "takes integers");
      case NestOp::kWrapIndex:
      case NestOp::kCheckIndex:
        return require(id, n.dtype == DType::kInt64, "takes i64");
      default:
        if (n.op == NestOp::kTruncDiv || n.op == NestOp::kFloorDiv || n.op == NestOp::kFmod ||
            n.op == NestOp::kRemainder || n.op == NestOp::kSub)
          require(id, n.dtype != DType::kBool, "does not take i1");
    }
  }

  void check_ternary(NodeId id) {
    const NestNode& n = nest_.nodes[id];
    if (!check_arity(id, 3)) return;
    DType a = arg_type(id, 0), b = arg_type(id, 1), c = arg_type(id, 2);
    if (n.op == NestOp::kSelect)
      require(id, a == DType::kBool && b == n.dtype && c == n.dtype,
              "takes i1 and two values of the result's dtype" + arg_text(id));
    if (n.op == NestOp::kFma)
      require(id,
              (n.dtype == DType::kFloat32 || n.dtype == DType::kFloat64) && a == n.dtype &&
                  b == n.dtype && c == n.dtype,
              "takes f32 or f64" + arg_text(id));
    if (n.op == NestOp::kPhilox) {
      require(id, a == DType::kInt64 && b == a && c == a && n.dtype == DType::kInt32,
              "takes i64 and gives i32" + arg_text(id));
      check_attr(id, 4, "word");
    }
  }

  void check_over_rows(NodeId id) {
    const NestNode& n = nest_.nodes[id];
    if (!check_arity(id, 1)) return;
    DType a = arg_type(id, 0);
    require(id, nest_.row_rank > 0, "needs a row dim");
    if (op_class(n.op) == NestOpClass::kScan)
      require(id, nest_.schedule == Schedule::kRow || nest_.schedule == Schedule::kSequential,
              "scans need schedule row or sequential");
    if (n.op == NestOp::kArgMax || n.op == NestOp::kArgMin)
      return require(id, n.dtype == DType::kInt64, "result must be i64");
    require(id, a == n.dtype, "argument and result have one dtype" + arg_text(id));
    if (n.op == NestOp::kReduceSum || n.op == NestOp::kReduceProd || n.op == NestOp::kScanSum ||
        n.op == NestOp::kScanProd)
      require(id, !is_half(a) && a != DType::kBool, "accumulates in f32, f64 or integers");
    if (n.op == NestOp::kReduceAnd || n.op == NestOp::kReduceOr)
      require(id, is_integral(a), "takes integers" + arg_text(id));
  }

  void check_effect(NodeId id) {
    const NestNode& n = nest_.nodes[id];
    require(id, n.args[0] != kNoNode, "needs a value");
    if (!message_.empty()) return;
    require(id, arg_type(id, 0) == n.dtype, "value and node have one dtype" + arg_text(id));
    check_access(id, 1, 2);
    if (n.op != NestOp::kStore)
      require(id, nest_.schedule == Schedule::kSequential || nest_.schedule == Schedule::kRow,
              "needs schedule sequential or row");
    if (n.op != NestOp::kStore && n.dtype == DType::kBool)
      require(id, n.op != NestOp::kStoreMul, "does not take i1");
  }

  // What needs to know over which dims values vary.
  void check_structure() {
    NestAnalysis analysis(nest_);
    bool two_phases = nest_.schedule == Schedule::kSplit || nest_.schedule == Schedule::kColumn;
    if (two_phases && analysis.passes() > 1)
      return fail(std::string(neuron::name(nest_.schedule)) +
                  " allows one pass over the rows, this nest needs " +
                  std::to_string(analysis.passes()));
    for (size_t n = 0; n < nest_.nodes.size(); ++n) {
      const NestNode& node = nest_.nodes[n];
      if (node.op != NestOp::kStore || node.args[1] != kNoNode) continue;
      if (nest_.schedule == Schedule::kSequential) continue;  // the last row stays
      for (int d = 0; d < nest_.rank(); ++d)
        if (nest_.operands[node.attr].strides[d] == Stride::kZero &&
            analysis.varies(node.args[0], d))
          return fail_node(static_cast<NodeId>(n), "the value varies over dim " +
                                                       std::to_string(d) +
                                                       ", along which the operand has stride 0");
    }
  }

  const LoopNest& nest_;
  std::string message_;
};

}  // namespace

const char* name(NestOp op) { return kOpNames[static_cast<size_t>(op)]; }

NestOpClass op_class(NestOp op) { return kOpClasses[static_cast<size_t>(op)]; }

const char* name(Schedule s) {
  constexpr const char* kNames[] = {"pointwise", "row",        "split",
                                    "column",    "sequential", "horizontal"};
  return kNames[static_cast<size_t>(s)];
}

std::string verify_message(const LoopNest& nest) { return Verifier(nest).run(); }

void verify(const LoopNest& nest) {
  std::string message = verify_message(nest);
  if (!message.empty()) throw Error(ErrorCode::kInternal, "invalid loop nest: " + message);
}

}  // namespace neuron
