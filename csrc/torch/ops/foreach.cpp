// SPDX-License-Identifier: Apache-2.0
//
// foreach operators as one record each: PyTorch's own CPU kernels over pieces of the lists, on the
// pool. One boxed kernel serves every operator that has an in-place form; the functional form copies
// into fresh outputs and computes there, piece by piece while the piece is in cache.
//
// Lists that mix dtypes, shapes or devices take PyTorch's composite, which calls one operator per
// tensor and reports errors as it does everywhere.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linalg_vector_norm_cpu_dispatch.h>
#include <torch/library.h>

#include <algorithm>

#include "torch/current.h"
#include "torch/op_call.h"
#include "torch/ops/list_tiles.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using torch::jit::IValue;
using torch::jit::Stack;

// The arguments of a foreach call, by kind.
struct Arguments {
  std::vector<IValue> values;
  std::vector<size_t> lists;         // positions of the tensor lists; the first is self
  std::vector<size_t> tensors;       // positions of single tensors
  std::vector<size_t> scalar_lists;  // positions of lists of numbers
  size_t length = 0;                 // of the lists
};

Arguments take_arguments(const c10::OperatorHandle& op, const Stack& stack) {
  Arguments args;
  const size_t count = op.schema().arguments().size();
  args.values.assign(stack.end() - static_cast<long>(count), stack.end());
  for (size_t i = 0; i < count; ++i) {
    const IValue& value = args.values[i];
    if (value.isTensorList()) {
      args.lists.push_back(i);
    } else if (value.isTensor()) {
      args.tensors.push_back(i);
    } else if (value.isList()) {
      args.scalar_lists.push_back(i);
    }
  }
  args.length = args.values[0].toTensorList().size();
  return args;
}

bool is_complex_number(const IValue& value) { return value.isComplexDouble(); }

// One device, one floating dtype, one shape per index, real numbers: then no list is promoted,
// broadcast or refused.
bool uniform(const Arguments& args) {
  if (args.length == 0) return false;
  c10::Device device = args.values[0].toTensorList().get(0).device();
  for (const IValue& value : args.values) {
    if (is_complex_number(value)) return false;
  }
  for (const size_t position : args.scalar_lists) {
    const auto numbers = args.values[position].toListRef();
    if (numbers.size() != args.length) return false;
    if (std::any_of(numbers.begin(), numbers.end(), is_complex_number)) return false;
  }
  for (const size_t position : args.tensors) {
    const at::Tensor& t = args.values[position].toTensor();
    if (!t.defined() || t.dim() != 0 || t.is_complex()) return false;
    if (t.device() != device && t.device().type() != c10::kCPU) return false;
  }
  const auto self = args.values[args.lists[0]].toTensorList();
  for (const size_t position : args.lists) {
    const auto list = args.values[position].toTensorList();
    if (list.size() != args.length) return false;
    for (size_t i = 0; i < args.length; ++i) {
      const at::Tensor& first = list.get(i);
      const at::Tensor& own = self.get(i);
      if (!first.defined() || first.device() != device || device.type() != kNeuron) return false;
      if (first.layout() != c10::kStrided || first.is_conj() || first.is_neg()) return false;
      if (!at::isFloatingType(first.scalar_type()) || first.scalar_type() != own.scalar_type()) {
        return false;
      }
      if (first.sizes() != own.sizes()) return false;
    }
  }
  return true;
}

// PyTorch's composite is registered for every backend; the CPU's table entry is it.
void call_composite(const c10::OperatorHandle& op, Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

// The record's body: `inplace` on pieces, with numbers and single tensors as they are.
struct Body {
  c10::OperatorHandle inplace;
  Arguments args;   // lists are placeholders here
  size_t out_list;  // operands begin with `out_list` lists of fresh outputs (0 or 1)

  void operator()(const at::Tensor* t) const {
    const size_t n = args.length;
    const size_t list_count = args.lists.size() + out_list;
    std::vector<at::TensorList> lists;
    for (size_t i = 0; i < list_count; ++i) lists.emplace_back(t + i * n, n);
    const at::Tensor* singles = t + list_count * n;
    ListTiles(std::move(lists), 1).run([&](const ListTiles::Tile& tile) { run(tile, singles); });
  }

  void run(const ListTiles::Tile& tile, const at::Tensor* singles) const {
    if (out_list == 1) {
      for (size_t i = 0; i < tile.indices.size(); ++i) tile.lists[0][i].copy_(tile.lists[1][i]);
    }
    Stack stack(args.values.begin(), args.values.end());
    for (size_t i = 0; i < args.lists.size(); ++i) {
      // The outputs stand in for self.
      const size_t source = i == 0 ? 0 : i + out_list;
      stack[args.lists[i]] = c10::List<at::Tensor>(at::ArrayRef<at::Tensor>(tile.lists[source]));
    }
    for (size_t i = 0; i < args.tensors.size(); ++i) stack[args.tensors[i]] = singles[i];
    for (const size_t position : args.scalar_lists) {
      const c10::ArrayRef<IValue> all = args.values[position].toListRef();
      c10::impl::GenericList some(args.values[position].toList().elementType());
      for (const size_t index : tile.indices) some.push_back(all[index]);
      stack[position] = std::move(some);
    }
    inplace.callBoxed(&stack);
  }
};

void record(const c10::OperatorHandle& op, const c10::OperatorHandle& inplace, Arguments args,
            const std::vector<at::Tensor>& fresh) {
  OpCall call(op.schema().name().c_str());
  const size_t outputs = fresh.empty() ? 0 : 1;
  for (const at::Tensor& out : fresh) call.write(out);
  for (size_t i = 0; i < args.lists.size(); ++i) {
    IValue& value = args.values[args.lists[i]];
    for (const IValue& tensor : value.toListRef()) {
      if (i == 0 && outputs == 0) {
        call.write(tensor.toTensor());
      } else {
        call.read(tensor.toTensor());
      }
    }
    // Records hold blocks, not tensors.
    value = IValue();
  }
  for (const size_t position : args.tensors) {
    call.read(args.values[position].toTensor());
    args.values[position] = IValue();
  }
  call.record(Split::kNone, Body{inplace, std::move(args), outputs});
}

void foreach_inplace(const c10::OperatorHandle& op, Stack* stack) {
  Arguments args = take_arguments(op, *stack);
  if (!uniform(args)) return call_composite(op, stack);
  torch::jit::drop(*stack, args.values.size());
  record(op, op, std::move(args), {});
}

void foreach_functional(const c10::OperatorHandle& op, Stack* stack) {
  Arguments args = take_arguments(op, *stack);
  if (!uniform(args)) return call_composite(op, stack);
  torch::jit::drop(*stack, args.values.size());
  const c10::OperatorHandle inplace = c10::Dispatcher::singleton().findSchemaOrThrow(
      (op.schema().name() + "_").c_str(), op.schema().overload_name().c_str());
  std::vector<at::Tensor> outputs;
  outputs.reserve(args.length);
  for (const IValue& tensor : args.values[args.lists[0]].toListRef()) {
    outputs.push_back(new_like(tensor.toTensor()));
  }
  record(op, inplace, std::move(args), outputs);
  stack->emplace_back(c10::List<at::Tensor>(at::ArrayRef<at::Tensor>(outputs)));
}

// ---- norms ---------------------------------------------------------------------------------------

void foreach_norm(const c10::OperatorHandle& op, Stack* stack) {
  Arguments args = take_arguments(op, *stack);
  if (!uniform(args)) return call_composite(op, stack);
  torch::jit::drop(*stack, args.values.size());
  const at::Scalar order = args.values[1].toScalar();
  const auto dtype = args.values[2].toOptional<at::ScalarType>();
  const auto self = args.values[0].toTensorVector();
  std::vector<at::Tensor> outputs;
  OpCall call("aten::_foreach_norm");
  for (const at::Tensor& t : self) {
    outputs.push_back(empty({}, dtype.value_or(t.scalar_type()), t.device()));
    call.write(outputs.back());
  }
  for (const at::Tensor& t : self) call.read(t);
  call.record(Split::kNone, [order, dtype, n = self.size()](const at::Tensor* t) {
    int64_t elements = 0;
    for (size_t i = 0; i < n; ++i) elements += t[n + i].numel();
    const auto count = static_cast<int64_t>(n);
    const int64_t step = rows_per_tile(count, elements / count);
    for_tiles(count, step, [&](int64_t, int64_t begin, int64_t tensors) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(begin + tensors); ++i) {
        at::cpu::linalg_vector_norm_out(out_of(t[i]), t[n + i], order, at::OptionalIntArrayRef(),
                                        false, dtype);
      }
    });
  });
  stack->emplace_back(c10::List<at::Tensor>(at::ArrayRef<at::Tensor>(outputs)));
}

// ---- registration --------------------------------------------------------------------------------

constexpr const char* kUnary[] = {
    "abs",  "acos",       "asin",  "atan",  "ceil",    "cos",  "cosh", "erf",  "erfc",
    "exp",  "expm1",      "floor", "frac",  "lgamma",  "log",  "log10", "log1p", "log2",
    "neg",  "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin",  "sinh", "sqrt",
    "tan",  "tanh",       "trunc"};

constexpr std::pair<const char*, const char*> kOverloaded[] = {
    {"add", "Scalar"},       {"add", "List"},         {"add", "ScalarList"},
    {"add", "Tensor"},       {"sub", "Scalar"},       {"sub", "List"},
    {"sub", "ScalarList"},   {"mul", "Scalar"},       {"mul", "List"},
    {"mul", "ScalarList"},   {"mul", "Tensor"},       {"div", "Scalar"},
    {"div", "List"},         {"div", "ScalarList"},   {"div", "Tensor"},
    {"clamp_max", "Scalar"}, {"clamp_max", "List"},   {"clamp_max", "ScalarList"},
    {"clamp_min", "Scalar"}, {"clamp_min", "List"},   {"clamp_min", "ScalarList"},
    {"maximum", "Scalar"},   {"maximum", "List"},     {"maximum", "ScalarList"},
    {"minimum", "Scalar"},   {"minimum", "List"},     {"minimum", "ScalarList"},
    {"addcdiv", "Scalar"},   {"addcdiv", "ScalarList"}, {"addcmul", "Scalar"},
    {"addcmul", "ScalarList"}, {"lerp", "List"},      {"lerp", "Scalar"},
    {"lerp", "ScalarList"},  {"pow", "List"},         {"pow", "Scalar"},
    {"pow", "ScalarList"}};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const auto inplace = [] { return torch::CppFunction::makeFromBoxedFunction<&foreach_inplace>(); };
  const auto functional = [] {
    return torch::CppFunction::makeFromBoxedFunction<&foreach_functional>();
  };
  for (const char* name : kUnary) {
    m.impl((std::string("_foreach_") + name).c_str(), functional());
    m.impl((std::string("_foreach_") + name + "_").c_str(), inplace());
  }
  for (const auto& [name, overload] : kOverloaded) {
    m.impl((std::string("_foreach_") + name + "." + overload).c_str(), functional());
    m.impl((std::string("_foreach_") + name + "_." + overload).c_str(), inplace());
  }
  m.impl("_foreach_zero_", inplace());
  m.impl("_foreach_copy_", inplace());
  m.impl("_foreach_norm.Scalar", torch::CppFunction::makeFromBoxedFunction<&foreach_norm>());
}

}  // namespace
}  // namespace neuron::glue
