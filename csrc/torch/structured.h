// SPDX-License-Identifier: Apache-2.0
//
// The shared part of the kernels that tools/codegen generates for PyTorch's structured operators.
//
// A structured operator infers the sizes, strides and dtype of its outputs in a C++ class of
// PyTorch, `at::meta::structured_<op>`; it asks the kernel for outputs through virtual functions.
// Structured<Meta, N> answers them for `neuron`: it allocates (functional), checks (in-place) or
// checks and resizes (out) with PyTorch's messages. It computes nothing; the generated kernel
// records a LoweredCall afterwards, or an OpCall where the core has no kernel.
//
//   Structured<at::meta::structured_mm, 1> op;          // or op(Variant::kOut, out)
//   op.meta(self, mat2);                                // raises what PyTorch raises
//   record(op.common(), op[0], self, mat2);
//   return std::move(op).take();
//
// Outputs are never replaced by proxies of other strides: the CPU kernel that runs later makes its
// own where it needs one.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/List.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "torch/lowered_call.h"
#include "torch/op_call.h"

namespace neuron::glue {

enum class Variant : uint8_t { kFunctional, kInplace, kOut };

// Makes `output` what the meta function asked for. Empty `strides` mean contiguous, or the memory
// format of `options`.
void prepare_output(Variant variant, at::Tensor& output, at::IntArrayRef sizes,
                    at::IntArrayRef strides, const at::TensorOptions& options);

// Lives on the stack of one kernel call; in-place and out variants borrow the caller's tensors.
template <typename Meta, size_t N>
class Structured final : public Meta {
 public:
  Structured() : variant_(Variant::kFunctional) {
    for (size_t i = 0; i < N; ++i) outputs_[i] = &fresh_[i];
  }
  template <typename... Outputs>
    requires(sizeof...(Outputs) == N)
  explicit Structured(Variant variant, Outputs&... outputs)
      : outputs_{&outputs...}, variant_(variant) {}
  Structured(const Structured&) = delete;
  Structured& operator=(const Structured&) = delete;

  const at::Tensor& operator[](size_t i) const { return *outputs_[i]; }

  // The type that PyTorch's promotion gives to the operands; undefined where there is none.
  at::ScalarType common() const {
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      return this->maybe_common_dtype().value_or(at::ScalarType::Undefined);
    } else {
      return at::ScalarType::Undefined;
    }
  }

  // The result of a functional kernel.
  auto take() && {
    if constexpr (N == 1) {
      return std::move(fresh_[0]);
    } else {
      return std::apply([](auto&... t) { return std::make_tuple(std::move(t)...); }, fresh_);
    }
  }

  const at::Tensor& maybe_get_output(int64_t i) override {
    return *outputs_[static_cast<size_t>(i)];
  }
  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options) override {
    set_output_raw_strided(i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options) override {
    prepare_output(variant_, *outputs_[static_cast<size_t>(i)], sizes, strides, options);
    // The iterator takes the output that exists now.
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      Meta::set_output_raw_strided(i, sizes, strides, options);
    }
  }

 private:
  std::array<at::Tensor, N> fresh_;
  std::array<at::Tensor*, N> outputs_;
  Variant variant_;
};

// Arguments outlive the call in the record: `own` copies what a view refers to, `lend` views it.
inline at::DimVector own(at::IntArrayRef values) {
  return at::DimVector(values.begin(), values.end());
}
inline std::optional<at::DimVector> own(at::OptionalIntArrayRef values) {
  return values.has_value() ? std::optional(own(*values)) : std::nullopt;
}
inline std::string own(std::string_view text) { return std::string(text); }
inline std::optional<std::string> own(std::optional<std::string_view> text) {
  return text.has_value() ? std::optional(std::string(*text)) : std::nullopt;
}
inline at::IntArrayRef lend(const at::DimVector& values) { return values; }
inline at::OptionalIntArrayRef lend(const std::optional<at::DimVector>& values) {
  return values.has_value() ? at::OptionalIntArrayRef(at::IntArrayRef(*values)) : std::nullopt;
}
inline std::string_view lend(const std::string& text) { return text; }
inline std::optional<std::string_view> lend(const std::optional<std::string>& text) {
  return text.has_value() ? std::optional<std::string_view>(*text) : std::nullopt;
}

// An output among a record's operands; the array of operands is the record's own.
inline at::Tensor& writable(const at::Tensor& operand) { return const_cast<at::Tensor&>(operand); }
inline std::optional<at::Tensor> optional(const at::Tensor& operand) {
  return operand.defined() ? std::optional(operand) : std::nullopt;
}

// An output for a CPU kernel that writes as if it were contiguous: the operand itself if it is,
// else a temporary that `store` copies back.
class ContiguousOutput {
 public:
  explicit ContiguousOutput(const at::Tensor& operand);
  at::Tensor& get() { return result_; }
  void store();

 private:
  at::Tensor operand_;
  at::Tensor result_;
};

// A list of optional tensors as consecutive operands, undefined where the list has none.
using OptionalTensorList = c10::List<std::optional<at::Tensor>>;
void read_list(OpCall& call, const OptionalTensorList& tensors);
OptionalTensorList optional_list(const at::Tensor* operands, size_t count);

// Whether an operation over `dims` treats the slices along dimension 0 of `self` independently.
// No dims, or an empty list of them, stand for all.
bool keeps_rows(const at::Tensor& self, at::IntArrayRef dims);
inline bool keeps_rows(const at::Tensor& self, at::OptionalIntArrayRef dims) {
  return dims.has_value() && keeps_rows(self, *dims);
}
inline bool keeps_rows(const at::Tensor& self, int64_t dim) {
  return keeps_rows(self, at::IntArrayRef(dim));
}
inline bool keeps_rows(const at::Tensor& self, std::optional<int64_t> dim) {
  return dim.has_value() && keeps_rows(self, *dim);
}

}  // namespace neuron::glue
