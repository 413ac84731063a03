// SPDX-License-Identifier: Apache-2.0
//
// Fused cells of recurrent networks, forward and backward. PyTorch's LSTM and GRU call them for each
// time step on an accelerator; the CPU has no kernel for them, so the pointwise part of a cell is
// computed here from ATen's CPU operators. Gates lie side by side along the last dimension.
//
//   LSTM: i, f, g, o    c' = f c + i g,  h' = o tanh(c')        workspace: activated gates
//   GRU:  r, z, n       n = tanh(in + r hn),  h' = n + z (h - n)  workspace: r, z, n, h, hn
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <torch/library.h>

#include <initializer_list>

#include "torch/op_call.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// Gate i of a [batch, gates * hidden] alias.
Tensor gate(const Tensor& gates, int64_t i, int64_t hidden) {
  return slice(gates, 1, i * hidden, hidden);
}

void check_cell(const char* name, const Tensor& input_gates, const Tensor& hidden_gates,
                const Tensor& state, int64_t gates) {
  TORCH_CHECK(input_gates.dim() == 2 && input_gates.sizes() == hidden_gates.sizes(), name,
              ": expected gates of one 2-D shape, got ", input_gates.sizes(), " and ",
              hidden_gates.sizes());
  TORCH_CHECK(state.dim() == 2 && state.size(0) == input_gates.size(0) &&
                  state.size(1) * gates == input_gates.size(1),
              name, ": expected ", gates, " gates for a state of shape ", state.sizes(), ", got ",
              input_gates.sizes());
}

// Batch tiles of a cell: `body` gets the operands cut along dimension 0, biases whole.
template <typename Body>
void for_batches(const Tensor* t, std::initializer_list<size_t> cut, const Body& body) {
  const Tensor& first = t[*cut.begin()];
  const int64_t batch = first.size(0);
  if (batch == 0) return;
  for_tiles(batch, rows_per_tile(batch, first.size(1)), [&](int64_t, int64_t begin, int64_t n) {
    std::array<Tensor, 8> part;
    size_t i = 0;
    for (const size_t operand : cut) part[i++] = batch_of(t[operand], begin, n);
    body(part.data());
  });
}

// ---- LSTM ----------------------------------------------------------------------------------------

std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const OptionalTensor& input_bias,
                                             const OptionalTensor& hidden_bias) {
  check_cell("_thnn_fused_lstm_cell", input_gates, hidden_gates, cx, 4);
  const auto make = [&](const Tensor& like) {
    return empty(like.sizes(), like.scalar_type(), like.device());
  };
  Tensor hy = make(cx), cy = make(cx), workspace = make(input_gates);
  OpCall call("aten::_thnn_fused_lstm_cell");
  call.write(hy);
  call.write(cy);
  call.write(workspace);
  call.read(input_gates);
  call.read(hidden_gates);
  call.read(cx);
  call.read(input_bias);
  call.read(hidden_bias);
  call.record(Split::kNone, [hidden = cx.size(1)](const Tensor* t) {
    const Tensor &input_bias = t[6], &hidden_bias = t[7];
    for_batches(t, {2, 3, 4, 5, 0, 1}, [&](Tensor* p) {
      Tensor &gates = p[0], &cx = p[3], &hy = p[4], &cy = p[5];
      at::add_out(gates, p[1], p[2]);
      if (input_bias.defined()) gates.add_(input_bias);
      if (hidden_bias.defined()) gates.add_(hidden_bias);
      const Tensor i = gate(gates, 0, hidden), f = gate(gates, 1, hidden);
      const Tensor g = gate(gates, 2, hidden), o = gate(gates, 3, hidden);
      slice(gates, 1, 0, 2 * hidden).sigmoid_();
      g.tanh_();
      o.sigmoid_();
      at::mul_out(cy, f, cx);
      cy.addcmul_(i, g);
      at::tanh_out(hy, cy);
      hy.mul_(o);
    });
  });
  return {std::move(hy), std::move(cy), std::move(workspace)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                      const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
  if (!get(grad_hy).defined() && !get(grad_cy).defined()) return {};
  Tensor grad_gates = empty(workspace.sizes(), workspace.scalar_type(), workspace.device());
  Tensor grad_cx = empty(cx.sizes(), cx.scalar_type(), cx.device());
  Tensor grad_bias;
  if (has_bias) grad_bias = empty({workspace.size(1)}, workspace.scalar_type(), workspace.device());
  OpCall call("aten::_thnn_fused_lstm_cell_backward_impl");
  call.write(grad_gates);
  call.write(grad_cx);
  call.write(grad_bias);
  call.read(grad_hy);
  call.read(grad_cy);
  call.read(cx);
  call.read(cy);
  call.read(workspace);
  call.record(Split::kNone, [hidden = cx.size(1)](const Tensor* t) {
    for_batches(t, {0, 1, 3, 4, 5, 6, 7}, [&](Tensor* p) {
      const Tensor &gates = p[0], &gh = p[2], &gc = p[3], &cx = p[4], &w = p[6];
      const Tensor i = gate(w, 0, hidden), f = gate(w, 1, hidden), g = gate(w, 2, hidden);
      const Tensor o = gate(w, 3, hidden), tanh_cy = p[5].tanh();
      Tensor gi = gate(gates, 0, hidden), gf = gate(gates, 1, hidden);
      Tensor gg = gate(gates, 2, hidden), go = gate(gates, 3, hidden);
      // The gradient of the new cell state, through h' and directly.
      Tensor& gcy = p[1];
      if (gh.defined()) {
        at::tanh_backward_out(gcy, gh * o, tanh_cy);
        if (gc.defined()) gcy.add_(gc);
        at::sigmoid_backward_out(go, gh * tanh_cy, o);
      } else {
        gcy.copy_(gc);
        go.zero_();
      }
      at::sigmoid_backward_out(gi, gcy * g, i);
      at::sigmoid_backward_out(gf, gcy * cx, f);
      at::tanh_backward_out(gg, gcy * i, g);
      gcy.mul_(f);
    });
    if (t[2].defined()) at::sum_out(out_of(t[2]), t[0], at::IntArrayRef{0});
  });
  return {std::move(grad_gates), std::move(grad_cx), std::move(grad_bias)};
}

// ---- GRU -----------------------------------------------------------------------------------------

std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hx, const OptionalTensor& input_bias,
                                    const OptionalTensor& hidden_bias) {
  check_cell("_thnn_fused_gru_cell", input_gates, hidden_gates, hx, 3);
  const int64_t hidden = hx.size(1);
  Tensor hy = empty(hx.sizes(), hx.scalar_type(), hx.device());
  Tensor workspace = empty({hx.size(0), hidden * 5}, hx.scalar_type(), hx.device());
  OpCall call("aten::_thnn_fused_gru_cell");
  call.write(hy);
  call.write(workspace);
  call.read(input_gates);
  call.read(hidden_gates);
  call.read(hx);
  call.read(input_bias);
  call.read(hidden_bias);
  call.record(Split::kNone, [hidden](const Tensor* t) {
    const Tensor &input_bias = t[5], &hidden_bias = t[6];
    for_batches(t, {1, 2, 3, 4, 0}, [&](Tensor* p) {
      const Tensor input = input_bias.defined() ? p[1] + input_bias : p[1];
      const Tensor recurrent = hidden_bias.defined() ? p[2] + hidden_bias : p[2];
      const Tensor &hx = p[3];
      Tensor &w = p[0], &hy = p[4];
      Tensor rz = slice(w, 1, 0, 2 * hidden), n = gate(w, 2, hidden), hn = gate(w, 4, hidden);
      const Tensor r = gate(w, 0, hidden), z = gate(w, 1, hidden);
      at::add_out(rz, slice(input, 1, 0, 2 * hidden), slice(recurrent, 1, 0, 2 * hidden));
      rz.sigmoid_();
      hn.copy_(gate(recurrent, 2, hidden));
      at::addcmul_out(n, gate(input, 2, hidden), r, hn);
      n.tanh_();
      gate(w, 3, hidden).copy_(hx);
      at::sub_out(hy, hx, n);
      hy.mul_(z).add_(n);
    });
  });
  return {std::move(hy), std::move(workspace)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy,
                                                                     const Tensor& workspace,
                                                                     bool has_bias) {
  const int64_t hidden = workspace.size(1) / 5;
  const at::ScalarType dtype = workspace.scalar_type();
  const c10::Device device = workspace.device();
  Tensor grad_input = empty({workspace.size(0), hidden * 3}, dtype, device);
  Tensor grad_hidden = empty({workspace.size(0), hidden * 3}, dtype, device);
  Tensor grad_hx = empty(grad_hy.sizes(), dtype, device), input_bias, hidden_bias;
  if (has_bias) {
    input_bias = empty({hidden * 3}, dtype, device);
    hidden_bias = empty({hidden * 3}, dtype, device);
  }
  OpCall call("aten::_thnn_fused_gru_cell_backward");
  call.write(grad_input);
  call.write(grad_hidden);
  call.write(grad_hx);
  call.write(input_bias);
  call.write(hidden_bias);
  call.read(grad_hy);
  call.read(workspace);
  call.record(Split::kNone, [hidden](const Tensor* t) {
    for_batches(t, {0, 1, 2, 5, 6}, [&](Tensor* p) {
      const Tensor &gi = p[0], &gh = p[1], &grad = p[3], &w = p[4];
      const Tensor r = gate(w, 0, hidden), z = gate(w, 1, hidden), n = gate(w, 2, hidden);
      const Tensor hx = gate(w, 3, hidden), hn = gate(w, 4, hidden);
      Tensor gin = gate(gi, 2, hidden), gir = gate(gi, 0, hidden), giz = gate(gi, 1, hidden);
      at::tanh_backward_out(gin, grad - grad * z, n);
      at::sigmoid_backward_out(gir, gin * hn, r);
      at::sigmoid_backward_out(giz, grad * (hx - n), z);
      slice(gh, 1, 0, 2 * hidden).copy_(slice(gi, 1, 0, 2 * hidden));
      Tensor ghn = gate(gh, 2, hidden);
      at::mul_out(ghn, gin, r);
      at::mul_out(p[2], grad, z);
    });
    if (t[3].defined()) {
      at::sum_out(out_of(t[3]), t[0], at::IntArrayRef{0});
      at::sum_out(out_of(t[4]), t[1], at::IntArrayRef{0});
    }
  });
  return {std::move(grad_input), std::move(grad_hidden), std::move(grad_hx),
          std::move(input_bias), std::move(hidden_bias)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace
}  // namespace neuron::glue
