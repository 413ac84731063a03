// SPDX-License-Identifier: Apache-2.0
//
// Text form of loop nests:
//
//   nest row parallel=1 rows=1
//   operand bf16 [s,u]
//   scalar f32
//   %0 = load bf16 @0
//   %1 = cast f32 %0
//   %2 = philox i32 %4 %5 %6 @1
//   %3 = const f32 #3f800000
//   %4 = load f32 @1 _ %3          (an absent argument before a present one is "_")
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>

#include "neuron/base/error.h"
#include "neuron/host/loop_nest.h"

namespace neuron {
namespace {

constexpr char kStrideLetters[] = {'0', 'u', 's'};

void print_node(const NestNode& n, size_t id, std::string* out) {
  char buffer[32];
  *out += "%" + std::to_string(id) + " = " + name(n.op) + " " + name(n.dtype);
  int count = 3;
  while (count > 0 && n.args[count - 1] == kNoNode) --count;
  bool has_attr = n.op == NestOp::kLoad || n.op == NestOp::kScalar || n.op == NestOp::kIndex ||
                  n.op == NestOp::kExtent || n.op == NestOp::kPhilox ||
                  op_class(n.op) == NestOpClass::kEffect;
  if (has_attr) *out += " @" + std::to_string(n.attr);
  if (n.op == NestOp::kConstant) {
    std::snprintf(buffer, sizeof buffer, " #%llx", static_cast<unsigned long long>(n.bits));
    *out += buffer;
  }
  for (int k = 0; k < count; ++k)
    *out += n.args[k] == kNoNode ? std::string(" _") : " %" + std::to_string(n.args[k]);
  *out += "\n";
}

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(std::string(text)) {}

  LoopNest run() {
    while (std::getline(in_, line_)) {
      ++number_;
      std::istringstream words(line_);
      std::string first;
      if (!(words >> first)) continue;
      if (first == "nest") {
        read_header(words);
      } else if (first == "operand") {
        read_operand(words);
      } else if (first == "scalar") {
        nest_.scalars.push_back(dtype(word(words)));
      } else if (first == "%" + std::to_string(nest_.nodes.size())) {
        read_node(words);
      } else {
        fail("unexpected \"" + first + "\"");
      }
    }
    if (!seen_header_) fail("no nest line");
    return nest_;
  }

 private:
  [[noreturn]] void fail(const std::string& text) {
    throw Error(ErrorCode::kInvalidArgument,
                "loop nest, line " + std::to_string(number_) + ": " + text);
  }

  std::string word(std::istringstream& in) {
    std::string w;
    if (!(in >> w)) fail("line ends early");
    return w;
  }

  int64_t number(const std::string& text, size_t skip, int base = 10) {
    size_t used = 0;
    try {
      if (text.size() > skip) {
        uint64_t v = std::stoull(text.substr(skip), &used, base);
        if (used == text.size() - skip) return static_cast<int64_t>(v);
      }
    } catch (const std::exception&) {
      // reported below
    }
    fail("bad number in \"" + text + "\"");
  }

  DType dtype(const std::string& text) {
    for (int k = 0; k < static_cast<int>(DType::kOpaque); ++k)
      if (text == name(static_cast<DType>(k))) return static_cast<DType>(k);
    fail("unknown dtype " + text);
  }

  void read_header(std::istringstream& words) {
    std::string schedule = word(words), parallel = word(words), rows = word(words);
    std::optional<Schedule> found;
    for (int k = 0; k <= static_cast<int>(Schedule::kHorizontal); ++k)
      if (schedule == name(static_cast<Schedule>(k))) found = static_cast<Schedule>(k);
    if (!found) fail("unknown schedule " + schedule);
    nest_.schedule = *found;
    if (parallel.rfind("parallel=", 0) != 0 || rows.rfind("rows=", 0) != 0)
      fail("expected parallel= and rows=");
    nest_.parallel_rank = static_cast<int>(number(parallel, 9));
    nest_.row_rank = static_cast<int>(number(rows, 5));
    if (nest_.rank() > kMaxNestRank) fail("rank is too large");
    seen_header_ = true;
  }

  void read_operand(std::istringstream& words) {
    NestOperand o;
    o.dtype = dtype(word(words));
    std::string text = word(words);
    if (!seen_header_) fail("operand before the nest line");
    if (text.size() != 2 * static_cast<size_t>(nest_.rank()) + 1) fail("wrong number of strides");
    for (int d = 0; d < nest_.rank(); ++d) {
      char c = text[2 * d + 1];
      if (c != '0' && c != 'u' && c != 's') fail("strides are 0, u or s");
      o.strides[d] = c == '0' ? Stride::kZero : c == 'u' ? Stride::kUnit : Stride::kAny;
    }
    nest_.operands.push_back(o);
  }

  void read_node(std::istringstream& words) {
    static const std::map<std::string, NestOp> kOps = {
#define NEURON_NEST_OP_ENTRY(op, text, cls) {text, NestOp::k##op},
        NEURON_NEST_OPS(NEURON_NEST_OP_ENTRY)
#undef NEURON_NEST_OP_ENTRY
    };
    if (word(words) != "=") fail("expected =");
    std::string op = word(words);
    auto found = kOps.find(op);
    if (found == kOps.end()) fail("unknown op " + op);
    NestNode n;
    n.op = found->second;
    n.dtype = dtype(word(words));
    int count = 0;
    for (std::string w; words >> w;) {
      if (w[0] == '@') {
        n.attr = static_cast<int32_t>(number(w, 1));
      } else if (w[0] == '#') {
        n.bits = static_cast<uint64_t>(number(w, 1, 16));
      } else {
        if (count == 3) fail("too many arguments");
        n.args[count++] = w == "_" ? kNoNode : static_cast<NodeId>(number(w, 1));
      }
    }
    nest_.nodes.push_back(n);
  }

  std::istringstream in_;
  std::string line_;
  int number_ = 0;
  bool seen_header_ = false;
  LoopNest nest_;
};

}  // namespace

std::string to_text(const LoopNest& nest) {
  std::string out = std::string("nest ") + name(nest.schedule) +
                    " parallel=" + std::to_string(nest.parallel_rank) +
                    " rows=" + std::to_string(nest.row_rank) + "\n";
  for (const NestOperand& o : nest.operands) {
    out += std::string("operand ") + name(o.dtype) + " [";
    for (int d = 0; d < nest.rank(); ++d) {
      if (d > 0) out += ",";
      out += kStrideLetters[static_cast<size_t>(o.strides[d])];
    }
    out += "]\n";
  }
  for (DType t : nest.scalars) out += std::string("scalar ") + name(t) + "\n";
  for (size_t k = 0; k < nest.nodes.size(); ++k) print_node(nest.nodes[k], k, &out);
  return out;
}

LoopNest parse_loop_nest(std::string_view text) { return Parser(text).run(); }

}  // namespace neuron
