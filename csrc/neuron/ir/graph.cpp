// SPDX-License-Identifier: Apache-2.0
#include "neuron/ir/graph.h"

#include "neuron/base/error.h"

namespace neuron {
namespace {

constexpr const char* kNames[] = {
#define NEURON_IR_OP_NAME(op, text, cls) text,
    NEURON_IR_LEAVES(NEURON_IR_OP_NAME) NEURON_IR_COMPUTE(NEURON_IR_OP_NAME)
        NEURON_IR_MEMORY(NEURON_IR_OP_NAME)
#undef NEURON_IR_OP_NAME
};

constexpr IrOpClass kClasses[] = {
#define NEURON_IR_OP_CLASS(op, text, cls) IrOpClass::k##cls,
    NEURON_IR_LEAVES(NEURON_IR_OP_CLASS) NEURON_IR_COMPUTE(NEURON_IR_OP_CLASS)
        NEURON_IR_MEMORY(NEURON_IR_OP_CLASS)
#undef NEURON_IR_OP_CLASS
};

int arity(IrOpClass cls) {
  switch (cls) {
    case IrOpClass::kLeaf:
      return 0;
    case IrOpClass::kBinary:
    case IrOpClass::kCompare:
    case IrOpClass::kGather:
      return 2;
    case IrOpClass::kTernary:
      return 3;
    default:
      return 1;
  }
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  std::string run() {
    if (graph_.parallel_axes < 0 || graph_.row_axes < 0 || graph_.axes() > kMaxAxes) {
      return "a graph has at most " + std::to_string(kMaxAxes) + " axes";
    }
    for (const GraphInput& input : graph_.inputs) {
      if ((input.axes & ~graph_.all_mask()) != 0) return "an input has an axis that does not exist";
    }
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const std::string text = check(static_cast<ValueId>(i));
      if (!text.empty()) {
        return "%" + std::to_string(i) + " (" + name(graph_.values[i].op) + "): " + text;
      }
    }
    if (graph_.outputs.empty()) return "the graph has no output";
    for (const GraphOutput& output : graph_.outputs) {
      if (!exists(output.value)) return "an output's value does not exist";
      if (output.scattered()) {
        if (!exists(output.offset) || at(output.offset).dtype != DType::kInt64) {
          return "an output's offset is not i64";
        }
        if (output.mask != kNoValue &&
            (!exists(output.mask) || at(output.mask).dtype != DType::kBool)) {
          return "an output's mask is not i1";
        }
      } else {
        if (output.mask != kNoValue || output.combine != Combine::kStore) {
          return "only scattered outputs have a mask or combine";
        }
        if ((at(output.value).axes & ~output.axes) != 0) {
          return "an output lacks axes of its value";
        }
      }
      if ((output.axes & ~graph_.all_mask()) != 0) return "an output has an unknown axis";
    }
    return "";
  }

 private:
  bool exists(ValueId id) const {
    return id >= 0 && static_cast<size_t>(id) < graph_.values.size();
  }
  const Value& at(ValueId id) const { return graph_.values[static_cast<size_t>(id)]; }

  std::string check(ValueId id) const {
    const Value& v = at(id);
    const IrOpClass cls = op_class(v.op);
    AxisMask axes = 0;
    for (int k = 0; k < 3; ++k) {
      const ValueId a = v.args[static_cast<size_t>(k)];
      const bool optional = cls == IrOpClass::kGather && k == 1;
      if ((a != kNoValue) != (k < arity(cls)) && !(optional && a == kNoValue)) {
        return "takes " + std::to_string(arity(cls)) + " arguments";
      }
      if (a == kNoValue) continue;
      if (a < 0 || a >= id) return "argument %" + std::to_string(a) + " is not an earlier value";
      axes |= at(a).axes;
    }
    switch (cls) {
      case IrOpClass::kLeaf:
        return check_leaf(v);
      case IrOpClass::kReduce:
        if (graph_.row_axes == 0) return "needs a row axis";
        axes &= graph_.parallel_mask();
        break;
      case IrOpClass::kScan:
        if (graph_.row_axes == 0) return "needs a row axis";
        axes |= graph_.row_mask();
        break;
      case IrOpClass::kGather:
        if (v.attr < 0 || static_cast<size_t>(v.attr) >= graph_.inputs.size()) {
          return "no such input";
        }
        axes |= graph_.inputs[static_cast<size_t>(v.attr)].axes;
        break;
      default:
        break;
    }
    if (v.axes != axes) return "its axes do not follow from its arguments";
    return check_dtypes(v, cls);
  }

  std::string check_leaf(const Value& v) const {
    const auto below = [&](size_t limit) {
      return v.attr >= 0 && static_cast<size_t>(v.attr) < limit;
    };
    switch (v.op) {
      case IrOp::kInput: {
        if (!below(graph_.inputs.size())) return "no such input";
        const GraphInput& input = graph_.inputs[static_cast<size_t>(v.attr)];
        if (input.dtype != v.dtype || input.axes != v.axes) return "differs from its input";
        return "";
      }
      case IrOp::kScalar:
        if (!below(graph_.scalars.size())) return "no such scalar";
        if (graph_.scalars[static_cast<size_t>(v.attr)] != v.dtype)
          return "differs from its scalar";
        break;
      case IrOp::kIndex:
        if (!below(static_cast<size_t>(graph_.axes()))) return "no such axis";
        if (v.dtype != DType::kInt64) return "the result is i64";
        return v.axes == 1u << v.attr ? "" : "varies over its own axis";
      case IrOp::kExtent:
        if (!below(static_cast<size_t>(graph_.axes()))) return "no such axis";
        if (v.dtype != DType::kInt64) return "the result is i64";
        break;
      default:
        break;
    }
    return v.axes == 0 ? "" : "does not vary";
  }

  std::string check_dtypes(const Value& v, IrOpClass cls) const {
    const auto dtype = [&](size_t k) { return at(v.args[k]).dtype; };
    switch (cls) {
      case IrOpClass::kUnary:
        if (v.op == IrOp::kCast || v.op == IrOp::kBitcast) return "";
        [[fallthrough]];
      case IrOpClass::kScan:
        return dtype(0) == v.dtype ? "" : "argument and result differ in dtype";
      case IrOpClass::kReduce:
        if (v.op == IrOp::kArgMax || v.op == IrOp::kArgMin) {
          return v.dtype == DType::kInt64 ? "" : "the result is i64";
        }
        return dtype(0) == v.dtype ? "" : "argument and result differ in dtype";
      case IrOpClass::kBinary:
        if ((v.op == IrOp::kWrapIndex || v.op == IrOp::kCheckIndex) && v.dtype != DType::kInt64) {
          return "takes i64";
        }
        return dtype(0) == v.dtype && dtype(1) == v.dtype ? ""
                                                          : "arguments and result differ in dtype";
      case IrOpClass::kGather:
        if (dtype(0) != DType::kInt64) return "the offset is i64";
        if (v.args[1] != kNoValue && dtype(1) != DType::kBool) return "the mask is i1";
        return graph_.inputs[static_cast<size_t>(v.attr)].dtype == v.dtype
                   ? ""
                   : "differs from its input";
      case IrOpClass::kCompare:
        if (v.dtype != DType::kBool) return "the result is i1";
        return dtype(0) == dtype(1) ? "" : "arguments differ in dtype";
      case IrOpClass::kTernary:
        if (v.op == IrOp::kSelect && dtype(0) != DType::kBool) return "the condition is i1";
        if (v.op == IrOp::kPhilox) {
          if (v.attr < 0 || v.attr > 3) return "no such word";
          const bool wide =
              dtype(0) == DType::kInt64 && dtype(1) == DType::kInt64 && dtype(2) == DType::kInt64;
          return wide && v.dtype == DType::kInt32 ? "" : "takes i64 and gives i32";
        }
        if (v.op == IrOp::kFma && dtype(0) != v.dtype)
          return "arguments and result differ in dtype";
        return dtype(1) == v.dtype && dtype(2) == v.dtype ? ""
                                                          : "arguments and result differ in dtype";
      case IrOpClass::kLeaf:
        break;
    }
    return "";
  }

  const Graph& graph_;
};

}  // namespace

const char* name(IrOp op) { return kNames[static_cast<size_t>(op)]; }
IrOpClass op_class(IrOp op) { return kClasses[static_cast<size_t>(op)]; }

std::string verify_message(const Graph& graph) { return Verifier(graph).run(); }

void verify(const Graph& graph) {
  const std::string message = verify_message(graph);
  if (!message.empty()) throw Error(ErrorCode::kInternal, "invalid graph: " + message);
}

}  // namespace neuron
