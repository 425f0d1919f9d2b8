"""Text of other people's making, as a terminal may show it."""

from __future__ import annotations

import re

# C0 but for tabs and line ends, DEL, and C1: what moves a cursor, changes colours, or rings.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def escape_controls(text: str) -> str:
    r"""A text whose control characters are written out, so that a terminal obeys none.

    Tabs and ends of lines stay.

    Example:
        >>> print(escape_controls("a\x1b[31m\x9b1mb"))
        a\x1b[31m\x9b1mb
    """
    return _CONTROLS.sub(lambda found: f"\\x{ord(found.group()):02x}", text)
