"""Grouping sets: windows grouped by several sets of the key columns at once.

A set is identified by a number, the value of ``grouping_id`` in its rows. It has a bit for each key
column, the first one the most significant, which is 1 if the column isn't in the set. (Flink, Spark
and the SQL standard number sets in the same way.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from muntin.model.errors import OptionError

GROUPING_ID = "grouping_id"
"""The key column with the number of a row's set."""

Sets = Literal["rollup", "cube"] | tuple[tuple[str, ...], ...]
_HINT = 'give sets("rollup"), sets("cube"), or lists of key columns: sets(["a", "b"], ["a"], [])'


def sets_of(asked: Sets, keys: Sequence[object]) -> tuple[int, ...]:
    """Return the numbers of grouping sets over these key columns.

    Example:
        >>> sets_of("rollup", ("a", "b")), sets_of("cube", ("a", "b"))
        ((0, 1, 3), (0, 1, 2, 3))
        >>> sets_of((("b",), ()), ("a", "b"))
        (2, 3)
    """
    if not keys:
        raise OptionError("sets", asked, "needs key columns", 'give windowed(key=["a", "b"])')
    count = len(keys)
    if asked == "rollup":
        return tuple(2**absent - 1 for absent in range(count + 1))
    if asked == "cube":
        if count > 6:
            raise OptionError("sets", asked, f"would be {2**count} sets", "name those you need")
        return tuple(range(2**count))
    found = []
    for one in asked:
        for name in one:
            if name not in keys:
                named = ", ".join(str(key) for key in keys)
                raise OptionError("sets", name, "isn't a key column", f"give some of {named}")
        number = number_of([key in one for key in keys])
        if number in found:
            raise OptionError("sets", one, "is there twice", "leave one out")
        found.append(number)
    return tuple(found)


def number_of(present: Sequence[bool]) -> int:
    """Return the number of a set, given which columns it includes.

    Example:
        >>> number_of([True, False])
        1
    """
    found = 0
    for here in present:
        found = 2 * found + (not here)
    return found


def absent(number: int, count: int) -> list[int]:
    """Return the indices of the columns that aren't in a set.

    Example:
        >>> absent(1, 2), absent(3, 2)
        ([1], [0, 1])
    """
    return [place for place in range(count) if number >> (count - 1 - place) & 1]


def read_sets(asked: tuple[str | Sequence[str], ...]) -> Sets:
    """Read the arguments of ``sets()``."""
    if asked == ("rollup",):
        return "rollup"
    if asked == ("cube",):
        return "cube"
    named = [one for one in asked if not isinstance(one, str) and isinstance(one, Sequence)]
    if not asked or len(named) < len(asked):
        raise OptionError("sets", asked, "aren't sets of key columns", _HINT)
    return tuple(tuple(one) for one in named)


def format_sets(sets: Sequence[int], keys: Sequence[str]) -> str:
    """Format sets in words.

    Example:
        >>> format_sets((0, 1, 3), ("region", "product"))
        '(region, product), (region), ()'
    """
    named = []
    for number in sets:
        gone = absent(number, len(keys))
        named.append(f"({', '.join(key for at, key in enumerate(keys) if at not in gone)})")
    return ", ".join(named)
