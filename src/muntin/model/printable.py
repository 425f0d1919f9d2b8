"""Text for people: that from outside made safe for terminals, numbers with their nouns."""

from __future__ import annotations

import re

# C0 except tabs and line ends, DEL, and C1: these move the cursor, change colours, or ring. The
# next change the direction of text, so that it reads otherwise than it is. The last are halves of
# characters, such as bytes of the name of a file, which no terminal and no file takes.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
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


def format_count(number: int, noun: str, nouns: str = "") -> str:
    """Format a number of things with its noun; a plural that doesn't end in ``s`` is ``nouns``.

    Example:
        >>> (
        ...     format_count(1, "shard"),
        ...     format_count(2000, "shard"),
        ...     format_count(2, "retry", "retries"),
        ... )
        ('1 shard', '2,000 shards', '2 retries')
    """
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
