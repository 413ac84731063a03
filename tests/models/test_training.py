# SPDX-License-Identifier: Apache-2.0
"""Models that people train, as plain PyTorch: they must learn, and agree with the CPU step by step."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "neuron"


class LeNet(nn.Module):
    """For 8x8 images of digits."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 2 * 2, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def test_lenet_learns_the_digits():
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1400], order[1400:]
    model = LeNet().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    x, y = images[train].to(DEVICE), labels[train].to(DEVICE)
    for _ in range(20):
        for batch in torch.randperm(len(train), device=DEVICE).split(50):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        correct = model(images[test].to(DEVICE)).argmax(1) == labels[test].to(DEVICE)
    assert correct.float().mean().item() >= 0.97


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.skip(x))


def resnet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        Residual(8, 16, 2),
        Residual(16, 16, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )


class Sequence(nn.Module):
    """A recurrent layer between an embedding and a classifier."""

    def __init__(self, kind):
        super().__init__()
        self.embed = nn.Embedding(20, 12)
        self.body = kind(12, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens))[0][:, -1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens), src_key_padding_mask=tokens == 0).mean(1))


class GatedMLP(nn.Module):
    """The pieces of a Llama block: RMS norm by hand, rotary embedding, grouped queries, SwiGLU."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 32)
        self.scale = nn.Parameter(torch.ones(32))
        self.q, self.kv = nn.Linear(32, 32, bias=False), nn.Linear(32, 32, bias=False)
        self.gate, self.up, self.down = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)
        self.head = nn.Linear(32, 5)

    def norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale

    def forward(self, tokens):
        x = self.embed(tokens)
        batch, length, _ = x.shape
        h = self.norm(x)
        q = self.q(h).view(batch, length, 4, 8).transpose(1, 2)
        k, v = self.kv(h).view(batch, length, 2, 2, 8).permute(2, 0, 3, 1, 4)
        angle = torch.arange(length, device=x.device)[:, None] / 10 ** torch.arange(4, device=x.device)
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)

        def rotate(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat((-b, a), -1) * sin

        h = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + h.transpose(1, 2).reshape(batch, length, 32)
        h = self.norm(x)
        x = x + self.down(F.silu(self.gate(h)) * self.up(h))
        return self.head(self.norm(x)[:, -1])


def images():
    return torch.randn(6, 3, 12, 12)


def tokens():
    return torch.randint(1, 20, (6, 9))


MODELS = {
    "resnet": (resnet, images),
    "rnn": (lambda: Sequence(nn.RNN), tokens),
    "lstm": (lambda: Sequence(nn.LSTM), tokens),
    "gru": (lambda: Sequence(nn.GRU), tokens),
    "encoder": (Encoder, tokens),
    "llama_block": (GatedMLP, tokens),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_training_agrees_with_the_cpu(name, optimizer):
    torch.manual_seed(0)
    make, make_input = MODELS[name]
    host = make()
    device = copy.deepcopy(host).to(DEVICE)
    x, y = make_input(), torch.randint(0, 5, (6,))
    losses = []
    for model, where in ((host, "cpu"), (device, DEVICE)):
        step = OPTIMIZERS[optimizer](model.parameters())
        inputs, targets = x.to(where), y.to(where)
        losses.append([])
        for _ in range(8):
            step.zero_grad()
            loss = F.cross_entropy(model(inputs), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            step.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=2e-3)
    assert losses[1][-1] < losses[1][0]


def test_training_is_reproducible():
    def run():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 4)).to(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(32, 16, device=DEVICE)
        for _ in range(10):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        return [p.detach().cpu() for p in model.parameters()]

    for a, b in zip(run(), run(), strict=True):
        assert torch.equal(a, b)
