// SPDX-License-Identifier: Apache-2.0
//
// Copies between host and device, between devices and within one, with change of dtype and layout.
//
// A copy within `neuron` is a record, lowered where the core knows the types. A copy from pageable host memory takes a snapshot of small
// sources, so that the call returns at once, and waits for the stream for large ones; from pinned
// memory with non_blocking=True it is a record, and the memory is held back until it has run. A copy to the host waits, except
// with non_blocking=True into pinned memory.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_copy_from_and_resize_native.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include "neuron/runtime/event.h"
#include "torch/alias.h"
#include "torch/current.h"
#include "torch/errors.h"
#include "torch/host_run.h"
#include "torch/lowered_call.h"
#include "torch/op_call.h"
#include "torch/op_tracking.h"
#include "torch/pinned_memory.h"
#include "torch/source.h"
#include "torch/tensor.h"
#include "torch/wait.h"

namespace neuron::glue {
namespace {

constexpr const char* kCopy = "aten::copy_";
// Below this a second copy costs less than draining the stream.
constexpr size_t kSnapshotBytes = 256 * 1024;

// A record of a copy in which one side is host memory.
class HostCopy final : public HostCall {
 public:
  HostCopy(at::Tensor dst, at::Tensor src) : dst_(std::move(dst)), src_(std::move(src)) {}
  void run() override {
    run_on_host([&] { dst_.copy_(src_); });
  }
  const char* name() const override { return kCopy; }

 private:
  at::Tensor dst_, src_;
};

// Pinned memory without its owner: the allocator holds freed memory back until the stream has passed
// (hold_pinned), and a record must not be the last to drop a tensor that Python may own.
at::Tensor borrow(const at::Tensor& pinned) {
  return at::from_blob(pinned.mutable_data_ptr(), pinned.sizes(), pinned.strides(),
                       pinned.options().pinned_memory(false));
}

bool borrowable(const at::Tensor& host) {
  return host.is_pinned() && !host.is_conj() && !host.is_neg();
}

void record_copy(Stream& stream, const at::Tensor& device_side, bool device_is_written,
                 at::Tensor dst, at::Tensor src, int64_t held_bytes) {
  TensorRef ref;
  ref.block = block_of(device_side);
  ref.overwrites = device_is_written && device_side.nbytes() == ref.block->bytes() &&
                   device_side.is_non_overlapping_and_dense();
  RecordRequest request;
  request.source = current_source();
  (device_is_written ? request.outputs : request.inputs) = std::span<const TensorRef>(&ref, 1);
  request.held_bytes = held_bytes;
  request.host = std::make_unique<HostCopy>(std::move(dst), std::move(src));
  guarded([&] { stream.record(std::move(request)); });
}

void copy_from_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  Stream& stream = current_stream(dst.device().index());
  if (non_blocking && borrowable(src)) {
    record_copy(stream, dst, true, alias(dst), borrow(src), 0);
    hold_pinned(src.storage().data(), stream);
  } else if (src.nbytes() <= kSnapshotBytes) {
    at::Tensor snapshot = at::empty(src.sizes(), src.options().pinned_memory(false));
    snapshot.copy_(src);
    const auto bytes = static_cast<int64_t>(snapshot.nbytes());
    record_copy(stream, dst, true, alias(dst), std::move(snapshot), bytes);
  } else {
    wait_for(stream, SealReason::kHostRead);
    alias(dst).copy_(src);
    if (Block* block = block_of(dst); block->poisoned() && dst.nbytes() == block->bytes()) {
      block->set_poison(nullptr);
    }
  }
}

void copy_to_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  Stream& stream = current_stream(src.device().index());
  if (non_blocking && borrowable(dst)) {
    record_copy(stream, src, false, borrow(dst), alias(src), 0);
    hold_pinned(dst.storage().data(), stream);
    return;
  }
  wait_for(stream, SealReason::kHostRead);
  check_readable(src);
  dst.copy_(alias(src));
}

// Orders everything recorded on `before` in front of what follows on `after`.
void order(Stream& before, Stream& after) {
  if (&before == &after) return;
  auto* event = new EventState(/*timing=*/false);
  guarded([&] {
    before.record_event(*event);
    after.wait_event(*event);
  });
  event->release();
}

void copy_between_devices(const at::Tensor& dst, const at::Tensor& src) {
  Stream& from = current_stream(src.device().index());
  Stream& to = current_stream(dst.device().index());
  order(from, to);
  TensorRef refs[2];
  refs[0].block = block_of(dst);
  refs[1].block = block_of(src);
  RecordRequest request;
  request.source = current_source();
  request.outputs = std::span<const TensorRef>(refs, 1);
  request.inputs = std::span<const TensorRef>(refs + 1, 1);
  request.host = std::make_unique<HostCopy>(alias(dst), alias(src));
  guarded([&] { to.record(std::move(request)); });
  order(to, from);  // so that later writes to the source come after the copy
}

void copy(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  TORCH_CHECK(src.layout() == c10::kStrided && dst.layout() == c10::kStrided,
              "neuron supports strided tensors only: copy from ", src.layout(), " to ",
              dst.layout(), " is not possible");
  const bool to_device = dst.device().type() == kNeuron;
  const bool from_device = src.device().type() == kNeuron;
  TORCH_CHECK(to_device || dst.is_cpu(), "copy from neuron to ", dst.device(), " is not supported");
  TORCH_CHECK(from_device || src.is_cpu(), "copy from ", src.device(),
              " to neuron is not supported");
  if (!at::is_expandable_to(src.sizes(), dst.sizes())) {
    TORCH_CHECK(false, "The size of tensor a (", dst.sizes(), ") must match the size of tensor b (",
                src.sizes(), "): output with shape ", dst.sizes(),
                " doesn't match the broadcast shape ", src.sizes());
  }
  if (dst.numel() == 0) return;
  if (!from_device || !to_device || dst.device() != src.device()) {
    count_executed(kCopy, Route::kDevice);
  }
  if (!from_device) {
    copy_from_host(dst, src, non_blocking);
  } else if (!to_device) {
    copy_to_host(dst, src, non_blocking);
  } else if (dst.device() != src.device()) {
    copy_between_devices(dst, src);
  } else if (!pointwise(LoweredOp::kCopy, dst.scalar_type(), dst, {src})) {
    OpCall call(kCopy);
    call.write(dst);
    call.read(src);
    call.record(Split::kPointwise, [](const at::Tensor* t) { t[0].copy_(t[1]); }, 0, Route::kDevice);
  }
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (self.is_same(src)) return self;
  copy(self, src, non_blocking);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  copy(dst, self, non_blocking);
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  copy(dst, self, false);
  return dst;
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  wait_for(current_stream(self.device().index()), SealReason::kHostRead);
  check_readable(self);
  count_executed("aten::_local_scalar_dense", Route::kDevice);
  return at::_local_scalar_dense(alias(self));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
}

}  // namespace

void wait_for(Stream& stream, SealReason reason) {
  guarded([&] { stream.wait(stream.submitted(), reason); });
}

void check_readable(const at::Tensor& tensor) {
  Block* block = block_of(tensor);
  if (block == nullptr || !block->poisoned()) [[likely]] return;
  if (auto error = block->poison()) rethrow(*error);
}

}  // namespace neuron::glue
