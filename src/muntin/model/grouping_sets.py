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


def number_sets(sets: Sets, keys: Sequence[object]) -> tuple[int, ...]:
    """Return the numbers of grouping sets over these key columns.

    Example:
        >>> number_sets("rollup", ("a", "b")), number_sets("cube", ("a", "b"))
        ((0, 1, 3), (0, 1, 2, 3))
        >>> number_sets((("b",), ()), ("a", "b"))
        (2, 3)
    """
    if not keys:
        raise OptionError("sets", sets, "needs key columns", 'give windowed(key=["a", "b"])')
    count = len(keys)
    if sets == "rollup":
        return tuple(2**absent - 1 for absent in range(count + 1))
    if sets == "cube":
        if count > 6:
            raise OptionError("sets", sets, f"would be {2**count} sets", "name those you need")
        return tuple(range(2**count))
    numbers = []
    for columns in sets:
        for name in columns:
            if name not in keys:
                key_names = ", ".join(str(key) for key in keys)
                raise OptionError("sets", name, "isn't a key column", f"give some of {key_names}")
        number = number_set([key in columns for key in keys])
        if number in numbers:
            raise OptionError("sets", columns, "is listed twice", "leave one out")
        numbers.append(number)
    return tuple(numbers)


def number_set(present: Sequence[bool]) -> int:
    """Return the number of a set, given which columns it includes.

    Example:
        >>> number_set([True, False])
        1
    """
    number = 0
    for is_present in present:
        number = 2 * number + (not is_present)
    return number


def find_absent(number: int, count: int) -> list[int]:
    """Return the indices of the columns that aren't in a set.

    Example:
        >>> find_absent(1, 2), find_absent(3, 2)
        ([1], [0, 1])
    """
    return [index for index in range(count) if number >> (count - 1 - index) & 1]


def read_sets(arguments: tuple[str | Sequence[str], ...]) -> Sets:
    """Read the arguments of ``sets()``."""
    if arguments == ("rollup",):
        return "rollup"
    if arguments == ("cube",):
        return "cube"
    lists = [
        argument
        for argument in arguments
        if not isinstance(argument, str) and isinstance(argument, Sequence)
    ]
    if not arguments or len(lists) < len(arguments):
        raise OptionError("sets", arguments, "aren't sets of key columns", _HINT)
    return tuple(tuple(argument) for argument in lists)


def format_sets(sets: Sequence[int], keys: Sequence[str]) -> str:
    """Format sets in words.

    Example:
        >>> format_sets((0, 1, 3), ("region", "product"))
        '(region, product), (region), ()'
    """
    texts = []
    for number in sets:
        absent_keys = find_absent(number, len(keys))
        texts.append(
            f"({', '.join(key for index, key in enumerate(keys) if index not in absent_keys)})"
        )
    return ", ".join(texts)
