# SPDX-License-Identifier: Apache-2.0
import itertools

import pytest
import torch
import torch.nn.functional as F
import torch_neuronx
from torch.nn.attention import SDPBackend, sdpa_kernel

FUSED = "aten::_scaled_dot_product_fused_attention_overrideable"


def qkv(b, h, s, d, kv=None, kv_heads=None, dtype=torch.float32):
    torch.manual_seed(b * 100 + s)
    make = lambda h, s: torch.randn(b, h, s, d).to(dtype).requires_grad_()  # noqa: E731
    return make(h, s), make(kv_heads or h, kv or s), make(kv_heads or h, kv or s)


def fused(fn):
    torch_neuronx.clear_op_tracking()
    fn()
    return FUSED in torch_neuronx.get_executed_ops()


@pytest.mark.parametrize("shape", [(2, 3, 16, 8), (8, 4, 128, 32), (1, 1, 1, 4), (1, 2, 300, 16)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(same, shape, causal):
    same(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        *qkv(*shape),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("s, kv, causal", list(itertools.product([5, 40], [3, 70], [False, True])))
def test_attention_lengths_differ(same, s, kv, causal):
    same(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.3),
        *qkv(2, 2, s, 8, kv=kv),
        rtol=1e-4,
        atol=1e-5,
    )


@pytest.mark.parametrize("shape", [(9, 11), (1, 11), (9, 1), (2, 1, 9, 11), (1, 3, 9, 11), (2, 3, 9, 11), (2, 1, 1, 11)])
@pytest.mark.parametrize("boolean", [True, False])
def test_attention_masks(same, shape, boolean):
    torch.manual_seed(1)
    mask = torch.rand(shape) > 0.3 if boolean else torch.randn(shape)
    if boolean:
        mask[..., 0] = True
    q, k, v = qkv(2, 3, 9, 8, kv=11)
    same(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        q, k, v, mask, rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    nq, nk, nv, nm = (t.detach().to("neuron") for t in (q, k, v, mask))
    assert fused(lambda: F.scaled_dot_product_attention(nq, nk, nv, attn_mask=nm))


@pytest.mark.parametrize("causal", [False, True])
def test_grouped_queries(same, causal):
    q, k, v = qkv(2, 6, 20, 8, kv_heads=2)
    attend = lambda q, k, v: F.scaled_dot_product_attention(  # noqa: E731
        q, k, v, is_causal=causal, enable_gqa=True
    )
    same(attend, q, k, v, rtol=1e-4, atol=1e-5)
    on = [t.detach().to("neuron") for t in (q, k, v)]
    assert fused(lambda: attend(*on))


def test_mask_that_needs_a_gradient_takes_the_matrix_products(same):
    mask = torch.randn(9, 11, requires_grad=True)
    same(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        *qkv(2, 3, 9, 8, kv=11),
        mask,
        rtol=1e-4,
        atol=1e-5,
    )


def test_strided_operands(same):
    def attend(x):
        q, k, v = x.view(2, 12, 3, 4, 8).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    same(attend, torch.randn(2, 12, 96, requires_grad=True), rtol=1e-4, atol=1e-5)

    def columns(q, k, v):
        q, k, v = (t.transpose(2, 3) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v)

    same(columns, *(torch.randn(2, 2, 8, 6, requires_grad=True) for _ in range(3)), rtol=1e-4, atol=1e-5)


def test_empty_batch_and_other_ranks(same):
    attend = F.scaled_dot_product_attention
    same(attend, *(torch.randn(0, 2, 4, 8, requires_grad=True) for _ in range(3)))
    same(attend, *(torch.randn(5, 4, 8, requires_grad=True) for _ in range(3)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes(same, dtype):
    tolerance = 1e-8 if dtype == torch.float64 else 3e-2
    same(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        *(t.detach().requires_grad_() for t in qkv(2, 2, 33, 16, dtype=dtype)),
        rtol=tolerance,
        atol=tolerance,
    )


def test_choice_follows_sdpa_kernel():
    q = torch.randn(1, 2, 4, 8, device="neuron")
    attend = lambda: F.scaled_dot_product_attention(q, q, q)  # noqa: E731
    assert fused(attend)
    with sdpa_kernel(SDPBackend.MATH):
        assert not fused(attend)


def test_dropout_has_the_right_mean():
    torch.manual_seed(0)
    q = torch.zeros(2, 4, 64, 32, device="neuron")
    out = F.scaled_dot_product_attention(q, q, torch.ones_like(q), dropout_p=0.5)
    assert abs(out.mean().item() - 1.0) < 0.05
    assert out.std().item() > 0.01


def test_multihead_attention_module(same):
    def step(x):
        torch.manual_seed(0)
        m = torch.nn.MultiheadAttention(16, 4, batch_first=True).to(x.device)
        return m(x, x, x, need_weights=False)[0]

    same(step, torch.randn(2, 10, 16, requires_grad=True), rtol=1e-4, atol=1e-5)
