// SPDX-License-Identifier: Apache-2.0
//
// Random fills and dropout: Philox in the kernel, seed and offset reserved when the operation is
// recorded (lower/generator_ops.h says which numbers an element draws). Arguments are checked by
// PyTorch's own templates.
#include <ATen/core/DistributionsHelper.h>
#include <ATen/native/DistributionTemplates.h>
#include <torch/library.h>

#include "torch/generator.h"
#include "torch/lowered_call.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;
using MaybeGenerator = std::optional<at::Generator>;
namespace templates = at::native::templates;

// The templates name a generator class; the stubs here do not need one.
struct AnyGenerator {};

void add_state(LoweredCall& call, const MaybeGenerator& generator, const Tensor& out,
               uint64_t numbers) {
  const PhiloxState state = reserve(generator, out.device().index(), numbers);
  call.value(static_cast<int64_t>(state.seed));
  call.value(static_cast<int64_t>(state.offset));
}

// Fills `self` by an operation without tensor operands. `add_values` appends the operation's own.
template <typename AddValues>
void fill(LoweredOp op, at::ScalarType common, const Tensor& self, const MaybeGenerator& generator,
          const AddValues& add_values) {
  if (self.numel() == 0) return;
  const bool simple = to_dtype(self.scalar_type()) != DType::kOpaque &&
                      (self.dim() <= kMaxRank || self.is_contiguous());
  if (!simple) {
    // Types or layouts that kernels do not know: through a tensor that they do.
    const Tensor fresh = empty({self.numel()}, common, self.device());
    fill(op, common, fresh, generator, add_values);
    self.copy_(fresh.view(self.sizes()));
    return;
  }
  const Tensor target = self.dim() <= kMaxRank ? self : self.view({-1});
  LoweredCall call(op);
  call.write(target);
  call.structural(static_cast<int64_t>(to_dtype(common)));
  call.structural(0);
  add_state(call, generator, self, static_cast<uint64_t>(self.numel()));
  add_values(call);
  TORCH_CHECK(call.record(), "random numbers of type ", self.scalar_type(),
              " are not available on neuron");
}

at::ScalarType floating(const Tensor& self) {
  return at::isFloatingType(self.scalar_type()) ? self.scalar_type() : at::kFloat;
}

template <typename>
struct UniformStub {
  void operator()(at::TensorIteratorBase& iter, double from, double to, MaybeGenerator generator) {
    const Tensor& self = iter.tensor(0);
    fill(LoweredOp::kUniform, self.scalar_type(), self, generator, [&](LoweredCall& call) {
      call.value(from);
      call.value(to);
    });
  }
};

template <typename>
struct ExponentialStub {
  void operator()(at::TensorIteratorBase& iter, double lambda, MaybeGenerator generator) {
    const Tensor& self = iter.tensor(0);
    fill(LoweredOp::kExponential, floating(self), self, generator,
         [&](LoweredCall& call) { call.value(lambda); });
  }
};

template <typename>
struct RandomStub {
  void operator()(at::TensorIteratorBase& iter, uint64_t range, int64_t base,
                  MaybeGenerator generator) {
    record(iter.tensor(0), base, base + static_cast<int64_t>(range), generator);
  }
  // All 64-bit values.
  void operator()(at::TensorIteratorBase& iter, MaybeGenerator generator) {
    record(iter.tensor(0), 0, 0, generator);
  }

 private:
  static void record(const Tensor& self, int64_t from, int64_t to, MaybeGenerator generator) {
    fill(LoweredOp::kRandom, at::kLong, self, generator, [&](LoweredCall& call) {
      call.value(from);
      call.value(to);
    });
  }
};

Tensor& uniform(Tensor& self, double from, double to, MaybeGenerator generator) {
  return templates::uniform_impl_<UniformStub, AnyGenerator>(self, from, to, std::move(generator));
}

Tensor& exponential(Tensor& self, double lambda, MaybeGenerator generator) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "Exponential distribution is a continuous probability distribution. dtype must be a "
              "floating point but you specified ",
              self.dtype());
  return templates::exponential_impl_<ExponentialStub, AnyGenerator>(self, lambda,
                                                                     std::move(generator));
}

// The scalar operands come before the state.
template <typename>
struct NormalStub {
  void operator()(Tensor& self, double mean, double std, MaybeGenerator generator) {
    if (self.dim() > kMaxRank) {
      const Tensor fresh = empty({self.numel()}, self.scalar_type(), self.device());
      Tensor flat = fresh;
      (*this)(flat, mean, std, std::move(generator));
      self.copy_(fresh.view(self.sizes()));
      return;
    }
    LoweredCall call(LoweredOp::kNormal);
    call.write(self);
    call.structural(static_cast<int64_t>(to_dtype(self.scalar_type())));
    call.structural(0b11);
    call.value(mean);
    call.value(std);
    add_state(call, generator, self, static_cast<uint64_t>(self.numel()));
    TORCH_CHECK(call.record(), "normal_ is not available for type ", self.scalar_type());
  }
};

Tensor& normal(Tensor& self, double mean, double std, MaybeGenerator generator) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()) || self.is_complex(),
              "\"normal_kernel\" not implemented for '", c10::toString(self.scalar_type()), "'");
  return templates::normal_impl_<NormalStub, AnyGenerator>(self, mean, std, std::move(generator));
}

// `p` is a number or a tensor that broadcasts to `self`.
void record_bernoulli(Tensor& self, const PointwiseArgument& p, MaybeGenerator generator) {
  if (self.dim() > kMaxRank || to_dtype(self.scalar_type()) == DType::kOpaque) {
    Tensor fresh = empty(self.sizes(), at::kFloat, self.device());
    if (fresh.dim() > kMaxRank) fresh = fresh.view({-1});
    PointwiseArgument flat = p;
    Tensor probabilities;
    if (p.tensor != nullptr) {
      probabilities = p.tensor->expand(self.sizes()).reshape(fresh.sizes());
      flat.tensor = &probabilities;
    }
    record_bernoulli(fresh, flat, std::move(generator));
    self.copy_(fresh.view(self.sizes()));
    return;
  }
  LoweredCall call(LoweredOp::kBernoulli);
  call.write(self);
  if (p.tensor != nullptr) call.read(*p.tensor);
  call.structural(
      static_cast<int64_t>(p.tensor != nullptr ? to_dtype(p.tensor->scalar_type()) : DType::kFloat32));
  call.structural(p.tensor != nullptr ? 0 : 1);
  if (p.tensor == nullptr) call.value(p.plain);
  add_state(call, generator, self, static_cast<uint64_t>(self.numel()));
  TORCH_CHECK(call.record(), "bernoulli is not available for type ", self.scalar_type());
}

template <typename>
struct BernoulliStub {
  void operator()(Tensor& self, double p, MaybeGenerator generator) {
    record_bernoulli(self, p, std::move(generator));
  }
  void operator()(Tensor& self, const Tensor& p, MaybeGenerator generator) {
    const Tensor there = p.device() == self.device() ? p : p.to(self.device());
    TORCH_CHECK(at::isFloatingType(there.scalar_type()),
                "expected probabilities tensor to have floating type, got ", there.scalar_type());
    record_bernoulli(self, there, std::move(generator));
  }
};

Tensor& bernoulli_number(Tensor& self, double p, MaybeGenerator generator) {
  return templates::bernoulli_impl_<BernoulliStub, AnyGenerator>(self, p, std::move(generator));
}

Tensor& bernoulli_tensor(Tensor& self, const Tensor& p, MaybeGenerator generator) {
  return templates::bernoulli_impl_<BernoulliStub, AnyGenerator>(self, p, std::move(generator));
}

Tensor& bernoulli_out(const Tensor& self, MaybeGenerator generator, Tensor& out) {
  return templates::bernoulli_out_impl<BernoulliStub, AnyGenerator>(out, self,
                                                                    std::move(generator));
}

// ---- integers ------------------------------------------------------------------------------------

// Without bounds: all numbers from 0 on that the type holds exactly.
Tensor& random(Tensor& self, MaybeGenerator generator) {
  int64_t end = 0;  // 0: 2^63
  AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, self.scalar_type(), "random_", [&] {
    if constexpr (std::is_same_v<scalar_t, bool>) {
      end = 2;
    } else if constexpr (std::is_integral_v<scalar_t>) {
      if constexpr (sizeof(scalar_t) < 8) end = static_cast<int64_t>(std::numeric_limits<scalar_t>::max()) + 1;
    } else {
      end = (int64_t{1} << std::numeric_limits<scalar_t>::digits) + 1;
    }
  });
  fill(LoweredOp::kRandom, at::kLong, self, generator, [&](LoweredCall& call) {
    call.value(int64_t{0});
    call.value(end == 0 ? std::numeric_limits<int64_t>::min() : end);  // 2^63 modulo 2^64
  });
  return self;
}

Tensor& random_from(Tensor& self, int64_t from, std::optional<int64_t> to,
                    MaybeGenerator generator) {
  return templates::random_from_to_impl<RandomStub, AnyGenerator>(self, from, to,
                                                                  std::move(generator));
}

Tensor& random_to(Tensor& self, int64_t to, MaybeGenerator generator) {
  return random_from(self, 0, to, std::move(generator));
}

// ---- dropout -------------------------------------------------------------------------------------

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p,
                                          std::optional<bool> train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  const auto keep_all = [&] {
    return std::tuple(input.clone(), new_like(input, at::kBool).fill_(true));
  };
  if (input.numel() == 0 || (train.has_value() && !*train)) return keep_all();
  TORCH_CHECK(at::isFloatingType(input.scalar_type()), "native_dropout expects a floating-point ",
              "input, got ", input.scalar_type());
  if (input.dim() > kMaxRank) {
    auto [out, mask] = native_dropout(input.reshape({-1}), p, train);
    return {out.view(input.sizes()), mask.view(input.sizes())};
  }
  Tensor out = new_like(input);
  Tensor mask = new_like(input, at::kBool);
  LoweredCall call(LoweredOp::kNativeDropout);
  call.write(out);
  call.write(mask);
  call.read(input);
  call.structural(static_cast<int64_t>(to_dtype(input.scalar_type())));
  call.structural(0);
  add_state(call, std::nullopt, input, static_cast<uint64_t>(input.numel()));
  call.value(p);
  TORCH_CHECK(call.record(), "native_dropout is not available for type ", input.scalar_type());
  return {std::move(out), std::move(mask)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", uniform);
  m.impl("exponential_", exponential);
  m.impl("normal_", normal);
  m.impl("bernoulli_.float", bernoulli_number);
  m.impl("bernoulli_.Tensor", bernoulli_tensor);
  m.impl("bernoulli.out", bernoulli_out);
  m.impl("random_", random);
  m.impl("random_.from", random_from);
  m.impl("random_.to", random_to);
  m.impl("native_dropout", native_dropout);
}

}  // namespace
}  // namespace neuron::glue
