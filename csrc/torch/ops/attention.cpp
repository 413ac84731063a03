// SPDX-License-Identifier: Apache-2.0
//
// Scaled dot-product attention on ATen's CPU flash kernel, tiled over batch and heads: the choice of
// the backend, and the overrideable pair that PyTorch calls for it. Grouped queries (fewer key heads
// than query heads) read shared key heads in place. What the kernel cannot do (dropout, gradients of
// the mask, other ranks, nested tensors) takes PyTorch's composite of matrix products.
#include "torch/dispatch_stub.h"

#include <ATen/Context.h>
#include <ATen/OpMathType.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <ATen/SDPBackend.h>
#include <torch/library.h>

#include "torch/op_call.h"
#include "torch/ops/tiles.h"
#include "torch/tensor.h"

namespace neuron::glue {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// ---- choice --------------------------------------------------------------------------------------

bool mask_fits(const Tensor& mask, const Tensor& q, const Tensor& k) {
  if (!mask.defined()) return true;
  if (mask.requires_grad() && c10::GradMode::is_enabled()) return false;
  if (mask.scalar_type() != at::kBool && mask.scalar_type() != q.scalar_type()) return false;
  if (mask.dim() > 4) return false;
  const at::DimVector full{q.size(0), q.size(1), q.size(2), k.size(2)};
  for (int64_t d = 1; d <= mask.dim(); ++d) {
    const int64_t size = mask.size(-d);
    if (size != 1 && size != full[static_cast<size_t>(4 - d)]) return false;
  }
  return true;
}

bool flash_fits(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                double dropout_p, bool is_causal, bool grouped) {
  for (const Tensor* t : {&q, &k, &v}) {
    if (t->is_nested() || t->dim() != 4 || t->numel() == 0) return false;
    if (t->scalar_type() != q.scalar_type() || t->size(0) != q.size(0)) return false;
    if (t->size(3) != q.size(3)) return false;
  }
  if (!at::isFloatingType(q.scalar_type()) || dropout_p > 0.0) return false;
  if (k.size(1) != v.size(1) || k.size(2) != v.size(2)) return false;
  if (grouped ? q.size(1) % k.size(1) != 0 : q.size(1) != k.size(1)) return false;
  return mask_fits(mask, q, k) && !(is_causal && mask.defined());
}

int64_t choose(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& mask,
               double dropout_p, bool is_causal, std::optional<double> /*scale*/,
               bool enable_gqa) {
  const at::Context& context = at::globalContext();
  const bool allowed = context.userEnabledOverrideableSDP() || context.userEnabledFlashSDP();
  if (allowed && flash_fits(q, k, v, get(mask), dropout_p, is_causal, enable_gqa)) {
    return static_cast<int64_t>(at::SDPBackend::overrideable);
  }
  return static_cast<int64_t>(context.userEnabledMathSDP() ? at::SDPBackend::math
                                                           : at::SDPBackend::error);
}

// ---- tiles ---------------------------------------------------------------------------------------

// [batch, head, row, column] with unit stride along columns, as the kernel's matrix products need.
Tensor unit_columns(const Tensor& t) { return t.stride(3) == 1 ? t : t.contiguous(); }

// Heads [head, head + count) of one batch entry.
Tensor heads_of(const Tensor& t, int64_t batch, int64_t head, int64_t count) {
  return geometry(t, {1, count, t.size(2), t.size(3)}, t.strides(),
                  batch * t.stride(0) + head * t.stride(1));
}

// The kernel's layout of outputs is [batch, row, head, column].
Tensor rows_before_heads(const Tensor& t) {
  if (t.dim() == 3) {
    return geometry(t, {t.size(0), t.size(2), t.size(1)}, {t.stride(0), t.stride(2), t.stride(1)},
                    0);
  }
  return geometry(t, {t.size(0), t.size(2), t.size(1), t.size(3)},
                  {t.stride(0), t.stride(2), t.stride(1), t.stride(3)}, 0);
}

Tensor statistics_of(const Tensor& lse, int64_t batch, int64_t head, int64_t count) {
  return geometry(lse, {1, count, lse.size(2)}, lse.strides(),
                  batch * lse.stride(0) + head * lse.stride(1));
}

// `mask` broadcast to one tile, without a copy.
OptionalTensor mask_of(const Tensor& mask, const Tensor& q, const Tensor& k, int64_t batch,
                       int64_t head, int64_t count) {
  if (!mask.defined()) return std::nullopt;
  at::DimVector strides(4, 0);
  for (int64_t d = 1; d <= mask.dim(); ++d) {
    if (mask.size(-d) != 1) strides[static_cast<size_t>(4 - d)] = mask.stride(-d);
  }
  return geometry(mask, {1, count, q.size(2), k.size(2)}, strides,
                  batch * strides[0] + head * strides[1]);
}

// Heads that make a tile of some 100 us; tiles of grouped queries share one key head.
int64_t heads_per_tile(const Tensor& q, const Tensor& k) {
  if (q.size(1) != k.size(1)) return 1;
  const int64_t work = q.size(2) * k.size(2) * q.size(3);
  const int64_t heads = std::max<int64_t>(1, (int64_t{1} << 19) / std::max<int64_t>(1, work));
  return std::min(heads, q.size(1));
}

template <typename Body>
void for_heads(int64_t batches, int64_t heads, int64_t step, const Body& body) {
  const int64_t per_batch = tile_count(heads, step);
  for_tiles(batches * per_batch, 1, [&](int64_t tile, int64_t, int64_t) {
    // One tile in all calls this once with the whole range; it is tile 0 then.
    const int64_t head = tile % per_batch * step;
    body(tile / per_batch, head, std::min(step, heads - head));
  });
}

Tensor empty_rows_before_heads(const Tensor& like) {
  const int64_t b = like.size(0), h = like.size(1), s = like.size(2), d = like.size(3);
  return empty_strided({b, h, s, d}, {s * h * d, d, h * d, 1}, like.scalar_type(), like.device());
}

// Boolean masks as what is added to the scores.
Tensor additive(const Tensor& mask, at::ScalarType dtype) {
  if (!mask.defined() || mask.scalar_type() != at::kBool) return mask;
  Tensor bias = at::zeros_like(mask, mask.options().dtype(dtype));
  bias.masked_fill_(mask.logical_not(), -std::numeric_limits<double>::infinity());
  return bias;
}

// ---- forward and backward ------------------------------------------------------------------------

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>
attention(const Tensor& q, const Tensor& k, const Tensor& v, const OptionalTensor& attn_bias,
          double dropout_p, bool is_causal, bool return_debug_mask, std::optional<double> scale) {
  TORCH_CHECK(!return_debug_mask, "attention on neuron keeps no debug mask");
  TORCH_CHECK(flash_fits(q, k, v, get(attn_bias), dropout_p, is_causal, true),
              "_scaled_dot_product_fused_attention_overrideable on neuron needs query, key and ",
              "value of rank 4 with equal dtype, batch and head size, no dropout, and a mask that ",
              "broadcasts to the scores and needs no gradient; got ", q.sizes(), ", ", k.sizes(),
              " and ", v.sizes());
  const Tensor mask = additive(get(attn_bias), q.scalar_type());
  Tensor out = empty_rows_before_heads(q);
  Tensor lse = empty({q.size(0), q.size(1), q.size(2)}, at::toOpMathType(q.scalar_type()),
                     q.device());
  OpCall call("aten::_scaled_dot_product_fused_attention_overrideable");
  call.write(out);
  call.write(lse);
  call.read(q);
  call.read(k);
  call.read(v);
  call.read(mask);
  call.record(Split::kNone, [is_causal, scale](const Tensor* t) {
    const Tensor q = unit_columns(t[2]), k = unit_columns(t[3]), v = unit_columns(t[4]);
    const int64_t group = q.size(1) / k.size(1);
    for_heads(q.size(0), q.size(1), heads_per_tile(q, k), [&](int64_t b, int64_t h, int64_t n) {
      at::native::flash_attention_kernel(
          c10::kCPU, rows_before_heads(heads_of(t[0], b, h, n)),
          rows_before_heads(statistics_of(t[1], b, h, n)), heads_of(q, b, h, n),
          heads_of(k, b, h / group, n), heads_of(v, b, h / group, n), 0.0, is_causal,
          mask_of(t[5], q, k, b, h, n), scale);
    });
  });
  const auto none = [&] { return empty({0}, at::kLong, q.device()); };
  return {std::move(out), std::move(lse), Tensor(), Tensor(), c10::SymInt(q.size(2)),
          c10::SymInt(k.size(2)), none(), none(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
    const Tensor& attn_bias, std::array<bool, 4> wanted, const Tensor& out, const Tensor& lse,
    const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/, int64_t /*max_q*/,
    int64_t /*max_k*/, double dropout_p, bool is_causal, const Tensor& /*philox_seed*/,
    const Tensor& /*philox_offset*/, std::optional<double> scale) {
  TORCH_CHECK(dropout_p == 0.0, "attention on neuron has no fused dropout");
  TORCH_CHECK(!wanted[3], "attention on neuron has no gradient of the mask in its fused form");
  if (!grad_out.defined()) return {};
  const Tensor mask = additive(attn_bias, q.scalar_type());
  Tensor dq = empty_rows_before_heads(q), dk = empty_rows_before_heads(k);
  Tensor dv = empty_rows_before_heads(v);
  OpCall call("aten::_scaled_dot_product_fused_attention_overrideable_backward");
  call.write(dq);
  call.write(dk);
  call.write(dv);
  call.read(grad_out);
  call.read(q);
  call.read(k);
  call.read(v);
  call.read(out);
  call.read(lse);
  call.read(mask);
  call.record(Split::kNone, [is_causal, scale](const Tensor* t) {
    const Tensor dy = unit_columns(t[3]), q = unit_columns(t[4]), k = unit_columns(t[5]);
    const Tensor v = unit_columns(t[6]), out = unit_columns(t[7]);
    const int64_t group = q.size(1) / k.size(1);
    const int64_t step = group == 1 ? heads_per_tile(q, k) : 1;
    // A tile owns its key heads; the query heads of a group add to them one after the other.
    for_heads(k.size(0), k.size(1), step, [&](int64_t b, int64_t h, int64_t n) {
      const Tensor dk = rows_before_heads(heads_of(t[1], b, h, n));
      const Tensor dv = rows_before_heads(heads_of(t[2], b, h, n));
      for (int64_t i = 0; i < group; ++i) {
        const int64_t head = h * group + i;
        const Tensor dq = rows_before_heads(heads_of(t[0], b, head, n));
        // The kernel adds to what it finds.
        dq.zero_();
        const bool first = i == 0;
        Tensor dk_part = first ? dk : at::empty(dk.sizes(), dk.options());
        Tensor dv_part = first ? dv : at::empty(dv.sizes(), dv.options());
        dk_part.zero_();
        dv_part.zero_();
        at::native::flash_attention_backward_kernel(
            c10::kCPU, dq, dk_part, dv_part, rows_before_heads(heads_of(dy, b, head, n)),
            rows_before_heads(heads_of(q, b, head, n)), rows_before_heads(heads_of(k, b, h, n)),
            rows_before_heads(heads_of(v, b, h, n)), rows_before_heads(heads_of(out, b, head, n)),
            rows_before_heads(statistics_of(t[8], b, head, n)), 0.0, is_causal,
            mask_of(t[9], q, k, b, head, n), scale);
        if (!first) {
          dk.add_(dk_part);
          dv.add_(dv_part);
        }
      }
    });
  });
  return {wanted[0] ? std::move(dq) : Tensor(), wanted[1] ? std::move(dk) : Tensor(),
          wanted[2] ? std::move(dv) : Tensor(), Tensor()};
}

int64_t fused_sdp_choice(const Tensor& q, const Tensor& k, const Tensor& v,
                         const OptionalTensor& mask, double dropout_p, bool is_causal,
                         std::optional<double> scale, bool enable_gqa) {
  return choose(q, k, v, mask, dropout_p, is_causal, scale, enable_gqa);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", fused_sdp_choice);
  m.impl("_scaled_dot_product_fused_attention_overrideable", attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", attention_backward);
}

}  // namespace
}  // namespace neuron::glue

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &neuron::glue::choose)
}  // namespace at::native
