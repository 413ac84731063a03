// SPDX-License-Identifier: Apache-2.0
#include "torch/host_ops.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <mutex>

#include "neuron/base/config.h"
#include "torch/alias.h"
#include "torch/allocator.h"
#include "torch/current.h"
#include "torch/errors.h"
#include "torch/generator.h"
#include "torch/host_op_schema.h"
#include "torch/host_run.h"
#include "torch/op_tracking.h"
#include "torch/source.h"
#include "torch/tensor.h"
#include "torch/wait.h"

namespace neuron::glue {
namespace {

using torch::jit::Stack;

// The operands of one call while it is turned into a host call.
class HostOp {
 public:
  HostOp(const HostOpSchema& schema, const c10::OperatorHandle& op, Stack* stack)
      : schema_(schema),
        op_(op),
        stack_(stack),
        first_(stack->size() - schema.arguments.size()) {}

  void run() {
    find_device();
    apply_policy();
    if (schema_.queued) {
      record();
    } else {
      call_and_adopt();
    }
  }

 private:
  struct Operand {
    at::Tensor original, alias;
    bool written;
  };

  c10::IValue& argument(size_t i) { return (*stack_)[first_ + i]; }

  template <typename F>
  void for_each_tensor(F&& f) {
    for (size_t i = 0; i < schema_.arguments.size(); ++i) {
      const c10::IValue& value = argument(i);
      if (value.isTensor()) {
        f(i, value.toTensor());
      } else if (value.isTensorList()) {
        for (const at::Tensor& t : value.toTensorVector()) f(i, t);
      } else if (value.isOptionalTensorList()) {
        for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector()) {
          if (t.has_value()) f(i, *t);
        }
      }
    }
  }

  // The one neuron device of the call; PyTorch's usual error for a mix.
  void find_device() {
    for_each_tensor([&](size_t i, const at::Tensor& t) {
      if (!t.defined()) return;
      TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == c10::kStrided && !t.is_quantized(),
                                  schema_.name, " on neuron supports strided tensors only, got ",
                                  t.is_quantized() ? "a quantized tensor" : "layout ",
                                  t.is_quantized() ? "" : c10::str(t.layout()));
      const c10::Device device = t.device();
      if (device.type() == kNeuron) {
        TORCH_CHECK(!device_.has_value() || *device_ == device, mixed_devices(device));
        device_ = device;
      } else if (!device.is_cpu() || schema_.arguments[i].written ||
                 (t.dim() > 0 && !schema_.arguments[i].host_allowed)) {
        foreign_ = device;
      }
    });
    if (!device_.has_value()) {
      for (size_t i = 0; i < schema_.arguments.size(); ++i) {
        const c10::IValue& value = argument(i);
        if (value.isDevice() && value.toDevice().type() == kNeuron) device_ = resolve(value.toDevice());
      }
    }
    if (!device_.has_value()) device_ = c10::Device(kNeuron, current_device());
    TORCH_CHECK(!foreign_.has_value(), mixed_devices(*foreign_));
  }

  std::string mixed_devices(c10::Device other) const {
    return c10::str("Expected all tensors to be on the same device, but found at least two devices, ",
                    *device_, " and ", other, "! (when checking argument in method ", schema_.name,
                    ")");
  }

  void apply_policy() {
    static const std::string& policy = config().fallback;
    TORCH_CHECK_NOT_IMPLEMENTED(policy != "error", "Operation ", schema_.name,
                                " has no kernel for neuron, and TORCH_NEURONX_FALLBACK=error forbids "
                                "running it on the host");
    if (policy == "warn" && !schema_.warned.exchange(true)) {
      TORCH_WARN(schema_.name, " has no kernel for neuron and runs on the host");
    }
    count_executed(schema_.name, schema_.queued ? Route::kHostOpQueued : Route::kHostOpWaiting);
  }

  at::Tensor make_alias(const at::Tensor& t, bool written, bool may_resize) {
    if (!t.defined()) return t;
    if (t.device().type() != kNeuron) {
      return schema_.queued && t.dim() > 0 ? t.clone() : alias(t);
    }
    for (const Operand& known : operands_) {
      if (known.original.is_same(t)) return known.alias;
    }
    at::Tensor a = may_resize ? resizable_alias(t) : alias(t);
    operands_.push_back({t, a, written});
    return a;
  }

  // Replaces every argument by what the CPU kernel must see.
  void translate_arguments() {
    for (size_t i = 0; i < schema_.arguments.size(); ++i) {
      c10::IValue& value = argument(i);
      const HostOpSchema::Argument& info = schema_.arguments[i];
      const bool may_resize = info.out && !schema_.queued;
      if (value.isTensor()) {
        value = make_alias(value.toTensor(), info.written, may_resize);
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> aliases;
        for (const at::Tensor& t : value.toTensorVector()) {
          aliases.push_back(make_alias(t, info.written, may_resize));
        }
        value = std::move(aliases);
      } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> aliases;
        for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector()) {
          aliases.push_back(t.has_value() ? std::make_optional(make_alias(*t, false, false)) : t);
        }
        value = std::move(aliases);
      } else if (value.isDevice() && value.toDevice().type() == kNeuron) {
        value = c10::Device(c10::kCPU);
      } else if (static_cast<int>(i) == schema_.generator) {
        std::optional<at::Generator> generator;
        if (!value.isNone()) generator = value.toGenerator();
        TORCH_CHECK(!generator.has_value() || generator->device().type() == kNeuron,
                    "Expected a 'neuron' device type for generator but found '",
                    generator->device().type(), "'");
        value = at::detail::createCPUGenerator(host_seed(generator));
      }
    }
  }

  uint64_t host_seed(const std::optional<at::Generator>& generator) {
    const PhiloxState state = reserve(generator, device_->index(), 4);
    // splitmix64 of the pair: neighbouring offsets give unrelated seeds.
    uint64_t z = state.seed + (state.offset + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

  void record();
  void call_and_adopt();
  void write_back(const Operand& operand);
  at::Tensor to_device(const at::Tensor& result);
  void call_cpu() {
    op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
  }

  const HostOpSchema& schema_;
  const c10::OperatorHandle& op_;
  Stack* stack_;
  const size_t first_;  // of the arguments on the stack
  std::optional<c10::Device> device_, foreign_;
  c10::SmallVector<Operand, 6> operands_;
};

// A queued host op: the boxed call with its aliases.
class BoxedCall final : public HostCall {
 public:
  BoxedCall(const char* name, const c10::OperatorHandle& op, Stack stack)
      : name_(name), op_(op), stack_(std::move(stack)) {}
  void run() override {
    run_on_host([&] {
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_);
    });
  }
  const char* name() const override { return name_; }

 private:
  const char* name_;
  c10::OperatorHandle op_;
  Stack stack_;
};

void HostOp::record() {
  // Returns are arguments: keep the originals, queue the aliases.
  Stack results;
  for (int i : schema_.returned_arguments) results.push_back(argument(static_cast<size_t>(i)));
  translate_arguments();
  c10::SmallVector<TensorRef, 8> inputs, outputs;
  for (const Operand& operand : operands_) {
    TensorRef ref;
    ref.block = block_of(operand.original);
    inputs.push_back(ref);  // in-place operators read what they write
    if (operand.written) outputs.push_back(ref);
  }
  RecordRequest request;
  request.source = current_source();
  request.inputs = inputs;
  request.outputs = outputs;
  const auto arguments = stack_->begin() + static_cast<std::ptrdiff_t>(first_);
  request.host = std::make_unique<BoxedCall>(
      schema_.name, op_,
      Stack(std::make_move_iterator(arguments), std::make_move_iterator(stack_->end())));
  stack_->erase(arguments, stack_->end());
  guarded([&] { current_stream(device_->index()).record(std::move(request)); });
  for (c10::IValue& result : results) stack_->push_back(std::move(result));
}

void HostOp::call_and_adopt() {
  wait_for(current_stream(device_->index()), SealReason::kHostRead);
  for_each_tensor([&](size_t i, const at::Tensor& t) {
    if (t.defined() && t.device().type() == kNeuron && !schema_.arguments[i].out) check_readable(t);
  });
  translate_arguments();
  {
    c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    if (schema_.random && schema_.generator < 0) {
      // The kernel draws from the CPU's default generator: lend it our numbers.
      static std::mutex lending;
      std::lock_guard lock(lending);
      at::Generator generator = at::detail::getDefaultCPUGenerator();
      const at::Tensor saved = generator.get_state();
      generator.set_current_seed(host_seed(std::nullopt));
      try {
        call_cpu();
      } catch (...) {
        generator.set_state(saved);
        throw;
      }
      generator.set_state(saved);
    } else {
      call_cpu();
    }
  }
  for (const Operand& operand : operands_) {
    if (operand.written) write_back(operand);
  }
  const size_t first_result = stack_->size() - schema_.returned_arguments.size();
  for (size_t i = 0; i < schema_.returned_arguments.size(); ++i) {
    c10::IValue& value = (*stack_)[first_result + i];
    if (value.isTensor()) {
      value = to_device(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> results;
      for (const at::Tensor& t : value.toTensorVector()) results.push_back(to_device(t));
      value = std::move(results);
    }
  }
}

// A kernel may have resized an out= argument: its geometry, and its memory if that moved, are the
// device tensor's from now on.
void HostOp::write_back(const Operand& operand) {
  const at::Tensor& t = operand.original;
  const at::Tensor& a = operand.alias;
  c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
  if (a.storage().data() != storage->data()) {
    const c10::Storage moved = a.storage();
    storage->set_data_ptr_noswap(guarded([&] {
      return adopt_data(const_cast<void*>(moved.data()), moved.nbytes(), device_->index(),
                        current_stream(device_->index()),
                        [owner = moved]() mutable { owner = c10::Storage(); });
    }));
    storage->set_nbytes(moved.nbytes());
  }
  if (a.sizes() != t.sizes() || a.strides() != t.strides()) {
    impl->set_storage_offset(a.storage_offset());
    impl->set_sizes_and_strides(a.sizes(), a.strides());
  }
}

at::Tensor HostOp::to_device(const at::Tensor& result) {
  if (!result.defined() || result.device().type() == kNeuron) return result;
  TORCH_CHECK_NOT_IMPLEMENTED(result.layout() == c10::kStrided && !result.is_quantized(),
                              schema_.name, " gives a ",
                              result.is_quantized() ? "quantized" : "sparse",
                              " tensor, which neuron does not support; call it on .cpu()");
  for (const Operand& operand : operands_) {
    if (operand.alias.is_same(result)) return operand.original;
  }
  for (const Operand& operand : operands_) {
    if (operand.alias.storage().unsafeGetStorageImpl() != result.storage().unsafeGetStorageImpl()) {
      continue;
    }
    at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
        c10::TensorImpl::VIEW, c10::Storage(operand.original.storage()),
        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), result.dtype());
    view.unsafeGetTensorImpl()->set_storage_offset(result.storage_offset());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides());
    return view;
  }
  return adopt(result, *device_);
}

void host_op_fallback(const c10::OperatorHandle& op, Stack* stack) { run_host_op(op, stack); }

void unsupported_layout(const c10::OperatorHandle& op, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().name(),
                              ": neuron supports strided tensors only (no sparse, quantized or "
                              "nested tensors); use the CPU for this tensor");
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&host_op_fallback>());
}
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&unsupported_layout>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&unsupported_layout>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&unsupported_layout>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&unsupported_layout>());
}

}  // namespace

void run_host_op(const c10::OperatorHandle& op, Stack* stack) {
  HostOp(host_op_schema(op), op, stack).run();
}

}  // namespace neuron::glue
