// SPDX-License-Identifier: Apache-2.0
//
// Text form of graphs, axes named a0, a1, ... in order:
//
//   graph parallel=1 rows=1
//   input bf16[a0,a1]
//   scalar f32
//   %0 = input 0 : bf16[a0,a1]
//   %1 = convert %0 : f32[a0,a1]
//   %2 = scalar 0 : f32[]
//   %3 = multiply %1 %2 : f32[a0,a1]
//   %4 = reduce_max %3 : f32[a0]
//   %5 = constant #3f800000 : f32[]
//   %6 = gather 1 %7 %8 : f32[a0]       (input, offset, mask)
//   output %4 : [a0]
//   output %4 : [a1] add at %7 if %8     (scattered; store, add, multiply, maximum or minimum)
#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

#include "neuron/base/error.h"
#include "neuron/ir/graph.h"

namespace neuron {
namespace {

std::string axes_text(AxisMask axes) {
  std::string text = "[";
  for (int a = 0; a < kMaxAxes; ++a) {
    if ((axes >> a & 1) == 0) continue;
    if (text.size() > 1) text += ",";
    text += "a" + std::to_string(a);
  }
  return text + "]";
}

bool has_attr(IrOp op) {
  return (op_class(op) == IrOpClass::kLeaf && op != IrOp::kConstant) || op == IrOp::kGather ||
         op == IrOp::kPhilox;
}

constexpr const char* kCombineNames[] = {"store", "add", "multiply", "maximum", "minimum"};

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(std::string(text)) {}

  Graph run() {
    std::string line;
    while (std::getline(in_, line)) {
      ++number_;
      std::istringstream words(line);
      std::string first;
      if (!(words >> first)) continue;
      if (first == "graph") {
        graph_.parallel_axes = setting(words, "parallel=");
        graph_.row_axes = setting(words, "rows=");
      } else if (first == "input") {
        const auto [dtype, axes] = type(word(words));
        graph_.inputs.push_back({dtype, axes});
      } else if (first == "scalar") {
        graph_.scalars.push_back(dtype(word(words)));
      } else if (first == "output") {
        const ValueId value = reference(word(words));
        expect(words, ":");
        graph_.outputs.push_back({value, axes(word(words))});
        read_scatter(words, &graph_.outputs.back());
      } else if (first == "%" + std::to_string(graph_.values.size())) {
        read_value(words);
      } else {
        fail("unexpected '" + first + "'");
      }
      if (words >> first) fail("unexpected '" + first + "'");
    }
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(const std::string& text) const {
    throw Error(ErrorCode::kInvalidArgument,
                "graph, line " + std::to_string(number_) + ": " + text);
  }

  std::string word(std::istringstream& words) const {
    std::string w;
    if (!(words >> w)) fail("ends early");
    return w;
  }

  void expect(std::istringstream& words, const std::string& what) const {
    const std::string w = word(words);
    if (w != what) fail("expected '" + what + "', found '" + w + "'");
  }

  int number(const std::string& text) const {
    if (text.empty() || text.size() > 9 ||
        text.find_first_not_of("0123456789") != std::string::npos) {
      fail("'" + text + "' is not a number");
    }
    return std::stoi(text);
  }

  int setting(std::istringstream& words, const std::string& key) const {
    const std::string w = word(words);
    if (!w.starts_with(key)) fail("expected '" + key + "'");
    return number(w.substr(key.size()));
  }

  ValueId reference(const std::string& w) const {
    if (!w.starts_with("%")) fail("expected a value, found '" + w + "'");
    return number(w.substr(1));
  }

  DType dtype(const std::string& w) const {
    for (int t = 0; t <= static_cast<int>(DType::kOpaque); ++t) {
      if (w == name(static_cast<DType>(t))) return static_cast<DType>(t);
    }
    fail("'" + w + "' is not a dtype");
  }

  AxisMask axes(const std::string& w) const {
    if (w.size() < 2 || w.front() != '[' || w.back() != ']')
      fail("'" + w + "' is not a list of axes");
    std::istringstream list(w.substr(1, w.size() - 2));
    std::string item;
    unsigned mask = 0;
    while (std::getline(list, item, ',')) {
      const int a = item.starts_with("a") ? number(item.substr(1)) : kMaxAxes;
      if (a >= kMaxAxes) fail("'" + item + "' is not an axis");
      mask |= 1u << a;
    }
    return static_cast<AxisMask>(mask);
  }

  std::pair<DType, AxisMask> type(const std::string& w) const {
    const size_t bracket = w.find('[');
    if (bracket == std::string::npos) fail("'" + w + "' is not a type");
    return {dtype(w.substr(0, bracket)), axes(w.substr(bracket))};
  }

  void read_scatter(std::istringstream& words, GraphOutput* output) {
    std::string w;
    if (!(words >> w)) return;
    const auto found = std::find(std::begin(kCombineNames), std::end(kCombineNames), w);
    if (found == std::end(kCombineNames)) fail("unexpected '" + w + "'");
    output->combine = static_cast<Combine>(found - std::begin(kCombineNames));
    expect(words, "at");
    output->offset = reference(word(words));
    if (!(words >> w)) return;
    if (w != "if") fail("unexpected '" + w + "'");
    output->mask = reference(word(words));
  }

  void read_value(std::istringstream& words) {
    static const std::map<std::string, IrOp>* const ops = [] {
      auto* map = new std::map<std::string, IrOp>;
#define NEURON_IR_OP_ENTRY(op, text, cls) map->emplace(text, IrOp::k##op);
      NEURON_IR_LEAVES(NEURON_IR_OP_ENTRY)
      NEURON_IR_COMPUTE(NEURON_IR_OP_ENTRY)
      NEURON_IR_MEMORY(NEURON_IR_OP_ENTRY)
#undef NEURON_IR_OP_ENTRY
      return map;
    }();
    expect(words, "=");
    const std::string op = word(words);
    const auto found = ops->find(op);
    if (found == ops->end()) fail("unknown operation '" + op + "'");
    Value v;
    v.op = found->second;
    size_t count = 0;
    for (std::string w = word(words); w != ":"; w = word(words)) {
      if (w.starts_with("%")) {
        if (count == v.args.size()) fail("too many arguments");
        v.args[count++] = reference(w);
      } else if (w.starts_with("#")) {
        if (w.size() < 2 || w.size() > 17 ||
            w.find_first_not_of("0123456789abcdef", 1) != std::string::npos) {
          fail("'" + w + "' is not a bit pattern");
        }
        v.bits = std::stoull(w.substr(1), nullptr, 16);
      } else {
        v.attr = number(w);
      }
    }
    std::tie(v.dtype, v.axes) = type(word(words));
    graph_.values.push_back(v);
  }

  std::istringstream in_;
  int number_ = 0;
  Graph graph_;
};

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text = "graph parallel=" + std::to_string(graph.parallel_axes) +
                     " rows=" + std::to_string(graph.row_axes) + "\n";
  for (const GraphInput& input : graph.inputs) {
    text += std::string("input ") + name(input.dtype) + axes_text(input.axes) + "\n";
  }
  for (DType scalar : graph.scalars) text += std::string("scalar ") + name(scalar) + "\n";
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& v = graph.values[i];
    text += "%" + std::to_string(i) + " = " + name(v.op);
    if (has_attr(v.op)) text += " " + std::to_string(v.attr);
    if (v.op == IrOp::kConstant) {
      char bits[24];
      std::snprintf(bits, sizeof bits, " #%llx", static_cast<unsigned long long>(v.bits));
      text += bits;
    }
    for (ValueId a : v.args) {
      if (a != kNoValue) text += " %" + std::to_string(a);
    }
    text += std::string(" : ") + name(v.dtype) + axes_text(v.axes) + "\n";
  }
  for (const GraphOutput& output : graph.outputs) {
    text += "output %" + std::to_string(output.value) + " : " + axes_text(output.axes);
    if (output.scattered()) {
      text += std::string(" ") + kCombineNames[static_cast<size_t>(output.combine)] + " at %" +
              std::to_string(output.offset);
      if (output.mask != kNoValue) text += " if %" + std::to_string(output.mask);
    }
    text += "\n";
  }
  return text;
}

Graph parse_graph(std::string_view text) { return Parser(text).run(); }

}  // namespace neuron
