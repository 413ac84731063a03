# SPDX-License-Identifier: Apache-2.0
import pytest
import torch


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_layers(same, kind, bias, bidirectional):
    def step(x):
        torch.manual_seed(3)
        m = getattr(torch.nn, kind)(5, 7, num_layers=2, bias=bias, bidirectional=bidirectional)
        m = m.to(x.device)
        y, state = m(x)
        grads = torch.autograd.grad(y.square().sum(), list(m.parameters()), retain_graph=True)
        return y, state, [g.detach() for g in grads]

    same(step, torch.randn(6, 3, 5, requires_grad=True), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells(same, kind):
    def step(x):
        torch.manual_seed(3)
        m = getattr(torch.nn, kind)(5, 7).to(x.device)
        y = m(x)
        return m(x, y)

    same(step, torch.randn(300, 5, requires_grad=True), rtol=1e-4, atol=1e-4)
    same(step, torch.randn(0, 5, requires_grad=True))


def test_only_one_state_has_a_gradient(same):
    def step(x, which):
        torch.manual_seed(3)
        m = torch.nn.LSTM(5, 7).to(x.device)
        return m(x)[1][which]

    for which in (0, 1):
        same(lambda x, which=which: step(x, which), torch.randn(4, 3, 5, requires_grad=True))


def test_packed_sequences(same):
    def step(x):
        torch.manual_seed(3)
        m = torch.nn.LSTM(5, 7, batch_first=True).to(x.device)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, [4, 2, 1], batch_first=True)
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(m(packed)[0], batch_first=True)
        return y

    same(step, torch.randn(3, 4, 5, requires_grad=True), rtol=1e-4, atol=1e-4)


def test_double_backward(same):
    def penalty(x):
        torch.manual_seed(3)
        m = torch.nn.GRU(3, 4).to(x.device)
        (g,) = torch.autograd.grad(m(x)[0].sum(), x, create_graph=True)
        return g.square().sum()

    same(penalty, torch.randn(2, 2, 3, requires_grad=True), rtol=1e-4, atol=1e-4)
