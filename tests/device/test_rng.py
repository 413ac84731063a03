# SPDX-License-Identifier: Apache-2.0
"""Random numbers: states, reproducibility, independence."""

import pytest
import torch


def draw(n=64, device="neuron", **kwargs):
    return torch.randn(n, device=device, **kwargs).cpu()


def test_manual_seed_reproduces():
    torch.manual_seed(3)
    a = draw()
    torch.manual_seed(3)
    assert draw().equal(a)
    assert not draw().equal(a)
    torch.neuron.manual_seed(3)
    assert draw().equal(a)


def test_torch_manual_seed_reaches_every_device():
    torch.manual_seed(11)
    a = [draw(device=f"neuron:{i}") for i in range(torch.neuron.device_count())]
    torch.manual_seed(11)
    b = [draw(device=f"neuron:{i}") for i in range(torch.neuron.device_count())]
    assert all(x.equal(y) for x, y in zip(a, b, strict=True))


def test_independent_of_the_cpu_generator():
    torch.manual_seed(0)
    cpu = torch.get_rng_state()
    draw()
    assert torch.get_rng_state().equal(cpu)
    device = torch.neuron.get_rng_state()
    torch.randn(10)
    assert torch.neuron.get_rng_state().equal(device)


def test_state_is_sixteen_bytes_seed_then_offset():
    torch.neuron.manual_seed(5)
    state = torch.neuron.get_rng_state()
    assert (state.dtype, state.numel(), state.device.type) == (torch.uint8, 16, "cpu")
    assert state.view(torch.int64).tolist() == [5, 0]
    draw()
    seed, offset = torch.neuron.get_rng_state().view(torch.int64).tolist()
    assert seed == 5
    assert offset > 0
    assert offset % 4 == 0


def test_state_round_trip():
    draw()
    state = torch.neuron.get_rng_state()
    a = draw()
    torch.neuron.set_rng_state(state)
    assert draw().equal(a)
    states = torch.neuron.get_rng_state_all()
    b = draw()
    torch.neuron.set_rng_state_all(states)
    assert draw().equal(b)


@pytest.mark.parametrize(
    "state", [torch.zeros(15, dtype=torch.uint8), torch.zeros(16), torch.zeros(0).byte()]
)
def test_wrong_state(state):
    with pytest.raises((RuntimeError, TypeError), match="RNG state"):
        torch.neuron.set_rng_state(state)


def test_generator_objects():
    generator = torch.Generator(device="neuron")
    assert generator.device == torch.device("neuron", 0)
    generator.manual_seed(9)
    a = draw(generator=generator)
    default = torch.neuron.get_rng_state()
    generator.manual_seed(9)
    assert draw(generator=generator).equal(a)
    assert torch.neuron.get_rng_state().equal(default)
    assert torch.Generator(device="neuron:1").device.index == 1
    assert generator.initial_seed() == 9


def test_generator_offset():
    generator = torch.Generator(device="neuron").manual_seed(1)
    generator.set_offset(8)
    assert generator.get_offset() == 8
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_offset(3)


def test_graphsafe_state_is_shared_and_clones_are_not():
    generator = torch.Generator(device="neuron").manual_seed(1)
    shared = generator.graphsafe_get_state()
    clone = generator.clone_state()
    generator.set_offset(40)
    assert shared.get_offset() == 40
    assert clone.get_offset() == 0
    generator.graphsafe_set_state(clone)
    assert generator.get_offset() == 0


def test_generator_of_another_device_type():
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(3, device="neuron", generator=torch.Generator())


def test_fork_rng():
    torch.manual_seed(4)
    with torch.random.fork_rng(devices=[0], device_type="neuron"):
        inside = draw()
    assert draw().equal(inside)


def test_default_generators():
    generators = torch.neuron.default_generators
    assert len(generators) == torch.neuron.device_count()
    generators[0].manual_seed(21)
    assert torch.neuron.initial_seed() == 21


def test_seed_is_random():
    torch.neuron.seed()
    a = torch.neuron.initial_seed()
    torch.neuron.seed_all()
    assert torch.neuron.initial_seed() != a
    assert len({g.initial_seed() for g in torch.neuron.default_generators}) == 1
    torch.manual_seed(0)


def test_seeding_needs_no_device(check_python):
    out = check_python(
        """
        import torch
        torch.manual_seed(7)
        state = torch.neuron.get_rng_state()
        print(torch.neuron.is_initialized(), state.view(torch.int64).tolist())
        """
    )
    assert out.strip() == "False [7, 0]"


def test_same_numbers_whatever_the_thread_count(check_python):
    program = """
        import torch
        torch.manual_seed(1)
        d = torch.nn.functional.dropout(torch.ones(100000, device="neuron"), 0.3)
        print(d.sum().item(), torch.rand(100000, device="neuron").double().sum().item())
    """
    outputs = {check_python(program, TORCH_NEURONX_NUM_THREADS=str(n)) for n in (1, 2, 3)}
    assert len(outputs) == 1


def test_numbers_look_random():
    torch.manual_seed(0)
    x = torch.rand(100_000, device="neuron").cpu()
    assert abs(x.mean().item() - 0.5) < 0.01
    assert abs(x.var().item() - 1 / 12) < 0.01
    y = torch.rand(100_000, device="neuron").cpu()
    assert abs(torch.corrcoef(torch.stack([x, y]))[0, 1].item()) < 0.02


def test_checkpoint_repeats_dropout():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    masks = []

    def block(x):
        y = torch.nn.functional.dropout(x, 0.5)
        masks.append(y.detach().ne(0).cpu())
        return y * y  # needs y again, so the block is run anew to its end

    x = torch.ones(256, device="neuron", requires_grad=True)
    checkpoint(block, x, use_reentrant=False).sum().backward()
    assert len(masks) == 2
    assert masks[0].equal(masks[1])
    assert x.grad.ne(0).cpu().equal(masks[0])
