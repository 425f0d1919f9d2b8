"""Text from outside, made safe for terminals."""

from __future__ import annotations

import re

# C0 except tabs and line ends, DEL, and C1: these move the cursor, change colours, or ring. The
# others change the direction of text, so that it reads otherwise than it is.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LINE_ENDS = str.maketrans({"\n": "\\n", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def escape_controls(text: str) -> str:
    r"""Escape the control characters of a text, so that a terminal doesn't execute them.

    Tabs and ends of lines stay.

    Example:
        >>> print(escape_controls("a\x1b[31m\x9b1mb"))
        a\x1b[31m\x9b1mb
    """
    return _CONTROLS.sub(_escape, text)


def escape_line(text: object) -> str:
    r"""Escape control characters and line ends, so that data can't forge a line of a log.

    Example:
        >>> print(escape_line("a\nERROR b"))
        a\nERROR b
    """
    return escape_controls(str(text)).translate(_LINE_ENDS)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
