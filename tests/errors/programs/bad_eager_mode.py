# SPDX-License-Identifier: Apache-2.0
# expect: ValueError: the eager mode is 'adaptive' or 'strict', not 'lazy'
import torch_neuronx

with torch_neuronx.eager_mode("lazy"):
    pass
