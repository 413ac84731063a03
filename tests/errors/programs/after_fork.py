# SPDX-License-Identifier: Apache-2.0
# expect: RuntimeError: Cannot re-initialize Neuron runtime in forked subprocess.*'spawn'
import os
import sys

import torch

torch.ones(3, device="neuron").sum().item()
child = os.fork()
if child == 0:
    torch.ones(3, device="neuron")
    os._exit(0)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
