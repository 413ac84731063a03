# SPDX-License-Identifier: Apache-2.0
# expect: RuntimeError: .*renam|already
import torch

torch.utils.rename_privateuse1_backend("another")
