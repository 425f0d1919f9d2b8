"""Finds the name that a mistyped one stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_SEPARATORS = re.compile(r"[^a-z0-9]+")


def find_close_name(name: str, names: Iterable[str], likeness: float = 0.7) -> str | None:
    """Return the name that a mistyped one most likely stands for; ``None`` if none is like it.

    Case and the separators of words are ignored, since names often differ in them. ``likeness`` is
    the least similarity, from 0 to 1.

    Example:
        >>> find_close_name("partiton-by", ["path", "partition_by", "files"])
        'partition_by'
        >>> find_close_name("securityProtocol", ["security.protocol", "sasl.username"])
        'security.protocol'
    """
    names_by_letters = {_remove_separators(one): one for one in sorted(names)}
    close = get_close_matches(_remove_separators(name), names_by_letters, 1, likeness)
    return names_by_letters[close[0]] if close else None


def _remove_separators(name: str) -> str:
    return _SEPARATORS.sub("", name.lower()) or name
