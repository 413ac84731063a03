# SPDX-License-Identifier: Apache-2.0
"""Forked children: one clear error for every use, no hang, no crash."""


def test_every_entry_raises_in_a_forked_child(check_python):
    out = check_python(
        """
        import os, torch
        x = torch.ones(4, device="neuron")
        x.sum().item()
        pid = os.fork()
        if pid == 0:
            failures = []
            for name, call in {
                "operator": lambda: x + 1,
                "factory": lambda: torch.empty(3, device="neuron"),
                "copy": lambda: x.cpu(),
                "synchronize": lambda: torch.neuron.synchronize(),
                "event": lambda: torch.neuron.Event().record(),
                "init": lambda: torch.neuron.init(),
            }.items():
                try:
                    call()
                    failures.append(f"{name} raised nothing")
                except RuntimeError as error:
                    if "Cannot re-initialize Neuron runtime in forked subprocess" not in str(error):
                        failures.append(f"{name}: {error}")
            if not torch.neuron._is_in_bad_fork() or torch.neuron.is_initialized():
                failures.append("state")
            torch.manual_seed(3)          # PyTorch skips devices in a bad fork
            torch.randn(3).sum().item()   # the CPU still works
            del x
            print("\\n".join(failures), flush=True)
            os._exit(len(failures))
        status = os.waitpid(pid, 0)[1]
        assert status == 0, status
        assert (x + 1).tolist() == [2.0] * 4   # the parent goes on
        print("parent done")
        """
    )
    assert out.strip() == "parent done"


def test_child_exits_normally_while_the_parent_has_work_queued(check_python):
    check_python(
        """
        import os, sys, torch
        x = torch.full((1024, 1024), 1e-3, device="neuron")
        for _ in range(8):
            x = x @ x
        pid = os.fork()
        if pid == 0:
            sys.exit(0)        # runs atexit handlers and destructors
        assert os.waitpid(pid, 0)[1] == 0
        torch.neuron.synchronize()
        """
    )


def test_fork_before_first_use_is_fine(check_python):
    check_python(
        """
        import os, torch
        pid = os.fork()
        if pid == 0:
            ok = torch.ones(3, device="neuron").sum().item() == 3
            torch.neuron.synchronize()
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert torch.ones(3, device="neuron").sum().item() == 3
        """
    )
