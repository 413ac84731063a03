# SPDX-License-Identifier: Apache-2.0
"""The version of the distribution ``torchneuron``; pyproject.toml reads it from here."""

__version__ = "0.1.0"
