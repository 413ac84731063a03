# SPDX-License-Identifier: Apache-2.0
"""The error that the demo shows as one line."""


class DemoError(Exception):
    """Something the user can put right; its message is one complete line."""
