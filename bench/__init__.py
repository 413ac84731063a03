# SPDX-License-Identifier: Apache-2.0
"""Measurements of the device against PyTorch on the CPU; ``bench/run.py`` is the command."""
