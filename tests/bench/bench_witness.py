# SPDX-License-Identifier: Apache-2.0
"""A workload that shows how a side's process is set up and how it fails."""

import os
import sys


class Witness:
    """Tells about its process."""

    def __init__(self, device):
        self.device = device
        self.turns = 0

    def modules(self):
        return [name for name in ("torch", "torch_neuronx") if name in sys.modules]

    def variable(self, name):
        return os.environ.get(name)

    def import_torch(self):
        import torch

        return torch.accelerator.is_available()

    def turn(self, value):
        print("not an answer")
        self.turns += 1
        return [value * self.turns]

    def fail(self):
        raise ValueError("no such thing")

    def end(self, status):
        os._exit(status)
