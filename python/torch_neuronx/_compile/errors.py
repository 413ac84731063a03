# SPDX-License-Identifier: Apache-2.0
"""Errors of the compiler."""


class NEFFCompilationError(RuntimeError):
    """A graph could not be compiled, and running it eagerly instead was not asked for."""
