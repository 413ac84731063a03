# SPDX-License-Identifier: Apache-2.0
# expect: RuntimeError: Cannot re-initialize Neuron runtime in forked subprocess
import os
import sys

import torch
import torch_neuronx

torch.ones(3, device="neuron").cpu()
child = os.fork()
if child == 0:
    torch_neuronx.explain()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
