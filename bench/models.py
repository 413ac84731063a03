# SPDX-License-Identifier: Apache-2.0
"""Language models written by hand, as people write them, with no mention of any device.

``forward(tokens, targets)`` gives the loss, so compiling a model compiles the loss as well.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from bench.sizes import SHAPES, Shape


def build(name: str, seed: int = 0) -> nn.Module:
    """The model of that name on the CPU; equal seeds give equal parameters."""
    torch.manual_seed(seed)
    shape = SHAPES[name]
    model = {"gpt": GPT, "llama": Llama}[shape.family](shape)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
    return model


class Attention(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.attention_norm = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.mlp_norm = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class GPT(nn.Module):
    """GPT-2's architecture: learned positions, layer norm before each part, GELU (tanh)."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.position = nn.Embedding(shape.sequence, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale).to(x.dtype) * self.weight


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding of (batch, heads, sequence, width of a head)."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class GroupedAttention(nn.Module):
    """Groups of query heads share a head of keys and values."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.head_width = shape.width // shape.heads
        self.query = nn.Linear(shape.width, shape.width, bias=False)
        self.key = nn.Linear(shape.width, self.kv_heads * self.head_width, bias=False)
        self.value = nn.Linear(shape.width, self.kv_heads * self.head_width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query = self.query(x).view(batch, length, self.heads, -1).transpose(1, 2)
        key = self.key(x).view(batch, length, self.kv_heads, -1).transpose(1, 2)
        value = self.value(x).view(batch, length, self.kv_heads, -1).transpose(1, 2)
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        key = key.repeat_interleave(self.heads // self.kv_heads, dim=1)
        value = value.repeat_interleave(self.heads // self.kv_heads, dim=1)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class LlamaBlock(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        hidden = 8 * shape.width // 3 // 8 * 8
        self.attention_norm = RMSNorm(shape.width)
        self.attention = GroupedAttention(shape)
        self.mlp_norm = RMSNorm(shape.width)
        self.gate = nn.Linear(shape.width, hidden, bias=False)
        self.up = nn.Linear(shape.width, hidden, bias=False)
        self.down = nn.Linear(hidden, shape.width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Llama's architecture: RMS norm, rotary positions, SwiGLU, grouped-query attention."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(LlamaBlock(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        width = shape.width // shape.heads
        frequencies = 10000.0 ** (-torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(shape.sequence), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        cos, sin = self.cos[:length], self.sin[:length]
        x = self.token(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
