# SPDX-License-Identifier: Apache-2.0
"""TORCH_NEURONX_DUMP_DIR: the files of new plans, and directories that cannot be written."""

import re

PROGRAM = """
    import torch, torch_neuronx
    from torch_neuronx import _C, metrics
    x = torch.rand(4, 8, device="neuron")
    for _ in range(4):
        torch.softmax((x * 2 + 1).relu(), -1).cpu()
        _C.wait_for_compiles()
    for w in torch_neuronx.explain().windows:
        for step in w.steps:
            if step.how == "fused":
                print("fused", step.kernel)
    print("failed", metrics.get_counter_value("Dump.Failed"))
"""


def test_plans_become_files(run_program, tmp_path):
    out = run_program(PROGRAM, TORCH_NEURONX_DUMP_DIR=str(tmp_path / "dump")).stdout
    assert "failed 0" in out
    names = sorted(p.name for p in (tmp_path / "dump").iterdir())
    assert all(
        re.match(r"p\d+-\d{6}-(window\.txt|ir\.txt|k\d\d-[0-9a-f]{16}\.(nest|ll))$", n)
        for n in names
    )
    kernels = set(re.findall(r"fused (\w{16})", out))
    assert kernels
    for kernel in kernels:
        (nest,) = {p.read_text() for p in (tmp_path / "dump").glob(f"*-{kernel}.nest")}
        (ll,) = {p.read_text() for p in (tmp_path / "dump").glob(f"*-{kernel}.ll")}
        assert "exp" in nest
        assert "define" in ll
    windows = [p.read_text() for p in (tmp_path / "dump").glob("*-window.txt")]
    assert any(
        "aten::relu f32[4,8] <- f32[4,8]" in text and "<string>:" in text for text in windows
    )


def test_a_directory_that_cannot_be_written_is_a_warning(run_program, tmp_path):
    (tmp_path / "file").write_text("")
    done = run_program(PROGRAM, TORCH_NEURONX_DUMP_DIR=str(tmp_path / "file"))
    assert done.stderr.count("TORCH_NEURONX_DUMP_DIR") == 1
    assert "failed 0" not in done.stdout
    assert "fused" in done.stdout
