// SPDX-License-Identifier: Apache-2.0
//
// OpCall: from a dispatcher call to a record of a stream.
//
// A kernel of the glue names its operation and its operands, and hands over a body that computes on
// *aliases*: CPU tensors over the same bytes. Constructing the OpCall checks the operands' devices
// (PyTorch's usual error for a wrong mix) and takes the current stream and the user's source line;
// `record` queues the body and returns. The body runs later, on a thread whose library kernels are
// single-threaded, without the GIL and below autograd; what it throws poisons the outputs.
//
//   at::Tensor out = ...;                                      // sized: its storage has its address
//   OpCall call("aten::mm.out");
//   call.write(out); call.read(self); call.read(mat2);         // operand order = order of `t`
//   call.record(Split::kRows, [](const at::Tensor* t) { at::cpu::mm_out(t[0], t[1], t[2]); });
//
// A Split says how the work may be cut into independent tiles; the tiles depend on sizes only.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <optional>
#include <utility>

#include "neuron/ir/op_record.h"
#include "neuron/runtime/stream.h"
#include "torch/alias.h"
#include "torch/op_tracking.h"

namespace neuron::glue {

enum class Split : uint8_t {
  kNone,       // one call
  kPointwise,  // operands broadcast to operand 0; cut along dimension 0 of operand 0
  kRows,       // cut dimension 0 of operand 0 and of the operands with the same extent there;
               // `whole` operands (mask bit i = operand i) are never cut
};

class OpCall {
 public:
  using Operands = c10::SmallVector<at::Tensor, 6>;  // aliases

  // `name` must have static lifetime ("aten::add.out").
  explicit OpCall(const char* name) : name_(name) {}

  void write(const at::Tensor& tensor) { add(tensor, true); }
  void read(const at::Tensor& tensor) { add(tensor, false); }
  void read(const std::optional<at::Tensor>& tensor) {
    add(tensor.has_value() ? *tensor : at::Tensor(), false);
  }
  // Appends the list's tensors one after the other; the body knows how many there are.
  void read(const at::ITensorListRef& tensors) {
    for (const auto& tensor : tensors) add(tensor, false);
  }
  void write(const at::ITensorListRef& tensors) {
    for (const auto& tensor : tensors) add(tensor, true);
  }

  // Where the record goes; the current device if no operand is on `neuron`.
  c10::Device device() const;

  // Queues `body(const at::Tensor* t)`, t = the operands' aliases in the order of read()/write().
  template <typename Body>
  void record(Split split, Body body, uint32_t whole = 0, Route route = Route::kHostKernel) {
    submit(std::make_unique<Call<Body>>(name_, split, whole, std::move(operands_), std::move(body)),
           route);
  }

 private:
  class CallBase : public HostCall {
   public:
    CallBase(const char* name, Split split, uint32_t whole, Operands operands)
        : name_(name), operands_(std::move(operands)), whole_(whole), split_(split) {}
    void run() final;
    const char* name() const final { return name_; }

   protected:
    virtual void compute(const at::Tensor* operands) = 0;

   private:
    void compute_tile(int64_t dim, int64_t extent, int64_t start, int64_t step);

    const char* name_;
    Operands operands_;
    uint32_t whole_;
    Split split_;
  };

  template <typename Body>
  class Call final : public CallBase {
   public:
    Call(const char* name, Split split, uint32_t whole, Operands operands, Body body)
        : CallBase(name, split, whole, std::move(operands)), body_(std::move(body)) {}

   private:
    void compute(const at::Tensor* operands) override { body_(operands); }
    Body body_;
  };

  void add(const at::Tensor& tensor, bool written);
  void submit(std::unique_ptr<HostCall> call, Route route);

  const char* name_;
  c10::DeviceIndex device_ = -1;
  c10::SmallVector<TensorRef, 4> inputs_;
  c10::SmallVector<TensorRef, 2> outputs_;
  Operands operands_;
};

}  // namespace neuron::glue
