"""Text from outside, made safe for terminals."""

from __future__ import annotations

import re

# C0 except tabs and line ends, DEL, and C1: these move the cursor, change colours, or ring.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def escape_controls(text: str) -> str:
    r"""Escape the control characters of a text, so that a terminal doesn't execute them.

    Tabs and ends of lines stay.

    Example:
        >>> print(escape_controls("a\x1b[31m\x9b1mb"))
        a\x1b[31m\x9b1mb
    """
    return _CONTROLS.sub(lambda match: f"\\x{ord(match.group()):02x}", text)
