// SPDX-License-Identifier: Apache-2.0
#include "torch/op_call.h"

#include <algorithm>

#include "neuron/host/thread_pool.h"
#include "torch/current.h"
#include "torch/errors.h"
#include "torch/host_run.h"
#include "torch/op_tracking.h"
#include "torch/source.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

// A tile must outweigh its hand-out (about 1 us) many times; a GEMM tile of 128 rows runs within 5 %
// of the library's best single-threaded speed.
constexpr int64_t kElementsPerTile = 32 * 1024;
constexpr int64_t kGemmRowsPerTile = 128;
constexpr int64_t kMaxTiles = 64;

struct Tiling {
  int64_t dim = 0;     // of operand 0, from the left
  int64_t extent = 0;  // of that dimension
  int64_t step = 0;    // extent of one tile
  int64_t count() const { return step == 0 ? 1 : (extent + step - 1) / step; }
};

Tiling tile_pointwise(const at::Tensor& out) {
  const int64_t numel = out.numel();
  if (numel < 2 * kElementsPerTile) return {};
  const int64_t wanted = std::min(kMaxTiles, numel / kElementsPerTile);
  // The dimension with the largest stride that offers enough tiles: tiles stay contiguous runs.
  int64_t best = -1;
  for (int64_t d = 0; d < out.dim(); ++d) {
    if (out.size(d) < wanted) continue;
    if (best < 0 || out.stride(d) > out.stride(best)) best = d;
  }
  if (best < 0) {
    for (int64_t d = 0; d < out.dim(); ++d) {
      if (best < 0 || out.size(d) > out.size(best)) best = d;
    }
  }
  const int64_t extent = out.size(best);
  return {best, extent, (extent + wanted - 1) / wanted};
}

Tiling tile_rows(const at::Tensor& out, bool gemm) {
  if (out.dim() == 0 || out.numel() == 0) return {};
  const int64_t rows = out.size(0);
  const int64_t per_row = std::max<int64_t>(1, out.numel() / rows);
  int64_t step = gemm ? kGemmRowsPerTile : std::max<int64_t>(1, kElementsPerTile / per_row);
  step = std::max(step, (rows + kMaxTiles - 1) / kMaxTiles);
  return rows <= step ? Tiling{} : Tiling{0, rows, step};
}

}  // namespace

void OpCall::CallBase::run() {
  const at::Tensor& out = operands_[0];
  Tiling tiling;
  if (split_ == Split::kPointwise) tiling = tile_pointwise(out);
  if (split_ == Split::kRows) tiling = tile_rows(out, whole_ != 0);
  if (tiling.count() == 1) {
    run_on_host([&] { compute(operands_.data()); });
    return;
  }
  IntraOpPool::instance().run(tiling.count(), [&](int64_t tile) {
    run_on_host([&] { compute_tile(tiling.dim, tiling.extent, tile * tiling.step, tiling.step); });
  });
}

void OpCall::CallBase::compute_tile(int64_t cut_dim, int64_t extent, int64_t start, int64_t step) {
  const int64_t length = std::min(step, extent - start);
  Operands tiles;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const at::Tensor& t = operands_[i];
    // Pointwise operands align with operand 0 at the right, rows at the left.
    const int64_t dim = split_ == Split::kPointwise && t.defined()
                            ? cut_dim - (operands_[0].dim() - t.dim())
                            : cut_dim;
    const bool cut = t.defined() && dim >= 0 && dim < t.dim() && t.size(dim) == extent &&
                     (split_ == Split::kPointwise || (whole_ >> i & 1) == 0);
    tiles.push_back(cut ? slice(t, dim, start, length) : t);
  }
  compute(tiles.data());
}

void OpCall::add(const at::Tensor& tensor, bool written) {
  if (!tensor.defined()) {
    operands_.push_back(tensor);
    return;
  }
  const c10::Device device = tensor.device();
  const bool scalar_from_host = device.type() == c10::kCPU && tensor.dim() == 0 && !written;
  TORCH_CHECK(scalar_from_host || (device.type() == kNeuron &&
                                   (device_ < 0 || device_ == device.index())),
              "Expected all tensors to be on the same device, but found at least two devices, ",
              this->device(), " and ", device, "! (when checking argument in ", name_, ")");
  operands_.push_back(alias(tensor));
  if (scalar_from_host) return;
  device_ = device.index();
  TensorRef ref;
  ref.block = block_of(tensor);
  if (written) {
    ref.overwrites = tensor.nbytes() == ref.block->bytes() && tensor.is_non_overlapping_and_dense();
    outputs_.push_back(ref);
  } else {
    inputs_.push_back(ref);
  }
}

c10::Device OpCall::device() const {
  return c10::Device(kNeuron, device_ >= 0 ? device_ : current_device());
}

void OpCall::submit(std::unique_ptr<HostCall> call, Route route) {
  count_executed(name_, route);
  for (TensorRef& out : outputs_) {
    for (const TensorRef& in : inputs_) out.overwrites &= in.block != out.block;
  }
  RecordRequest request;
  request.source = current_source();
  request.inputs = inputs_;
  request.outputs = outputs_;
  request.host = std::move(call);
  guarded([&] { current_stream(device().index()).record(std::move(request)); });
}

}  // namespace neuron::glue
