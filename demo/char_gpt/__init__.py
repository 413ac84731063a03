# SPDX-License-Identifier: Apache-2.0
"""A character-level GPT in plain PyTorch: corpus, model, training, checks and report."""
