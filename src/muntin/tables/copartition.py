"""Which partition owns a key, and the check that a table is written where its key belongs.

Source: the guide of Faust, "Co-partitioning Tables and Streams" and "Table Sharding". What it warns
of is an error here: a key must not end up in several partitions.

An event is in the partition of its own key; a table's key may be more than that, or have nothing to
do with it where a stream has no keys. So a table notes how its keys belong to partitions
(``Partitioning``), and a read from outside looks into those that may own a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl

from muntin.model.errors import PartitionError
from muntin.state.hashing import hash_rows
from muntin.tables.cells import keys_column
from muntin.tables.current import EventCursor

if TYPE_CHECKING:
    from muntin.tables.shard import TableShard

Partitioning = tuple[int, str]
"""How many parts keys have (0 where they are no tuples), and what of them their stream goes by."""
WHOLE, NOTHING, FIRST = "whole", "nothing", "first"


def partitions_of(keys: Sequence[Any], partitions: int) -> list[int]:
    """The partition of each key; events without a key all go to the first.

    The hash is the one that Spark's shards are chosen by, so that a key has the same number in
    every runtime of as many partitions. Keys that are equal to Python have one owner.

    Example:
        >>> partitions_of(["a", b"a", None], 1)
        [0, 0, 0]
        >>> len(set(partitions_of(["a", b"a"], 64))), len(set(partitions_of([1, 1.0, True], 64)))
        (1, 1)
    """
    if partitions == 1:
        return [0] * len(keys)
    kinds = set(map(type, keys))
    if kinds & _LIKE_NUMBERS:
        keys = [_number(key) for key in keys]
        kinds = set(map(type, keys))
    # Whole numbers too great for a column are hashed as bytes, and those beside them are not.
    great = kinds == {int} and any(key.bit_length() > 63 for key in keys)
    if len(kinds) > 1 or (great and len(keys) > 1):
        return [partitions_of([key], partitions)[0] for key in keys]
    if kinds == {type(None)}:
        return [0] * len(keys)
    column = pl.Series(keys, dtype=pl.Binary) if kinds == {bytes} else keys_column(keys)
    found: list[int] = (hash_rows([column]) % partitions).tolist()
    return found


# What may be equal to a number of another type, also inside of a tuple.
_LIKE_NUMBERS = {bool, float, Decimal, tuple}
# More than any float has, and as many as Python reads into a whole number.
_DIGITS = 4300


def _number(key: Any) -> Any:
    """The one among equal keys that stands for all of them."""
    if type(key) is tuple:
        return tuple(_number(part) for part in key)
    if type(key) not in _LIKE_NUMBERS:
        return key
    if isinstance(key, Decimal) and key.is_finite() and key.adjusted() > _DIGITS:
        # As a whole number it would take minutes, and all memory.
        sign, digits, exponent = key.as_tuple()
        text = "".join(map(str, digits))
        kept = text.rstrip("0")
        return f"{sign} {kept} {int(exponent) + len(text) - len(kept)}"
    try:
        whole = int(key)
        return whole if whole == key else float(key) if float(key) == key else key
    except (ArithmeticError, ValueError):
        return key  # not a number, or infinite


def partitioning_of(table: str, key: Any, cursor: EventCursor) -> Partitioning:
    """Refuse to write a table under a key that belongs elsewhere.

    A key belongs to the event's partition if it is what the stream is partitioned by, or a tuple
    that begins with it. A stream without keys is one partition, where every key belongs.
    """
    own = cursor.key
    way = _way(key, own)
    if way is not None:
        return _parts(key), way
    raise PartitionError(
        f"table {table!r} is written under {key!r} by the agent {cursor.agent!r}, whose stream is "
        f"partitioned by {own!r}: the key would be in several partitions; loop over "
        f"stream.group_by({_field(cursor.value, key)}) in an agent of its own"
    )


def belongs(key: Any, own: Any) -> bool:
    """Whether a key belongs to the partition of an event whose own key is another.

    Example:
        >>> belongs(("a", 1), "a"), belongs("b", "a")
        (True, False)
    """
    return _way(key, own) is not None


def _way(key: Any, own: Any) -> str | None:
    """What of a key its stream is partitioned by; ``None`` where it belongs elsewhere."""
    if own is None:
        return NOTHING
    if key == own:
        return WHOLE
    parts = own if isinstance(own, tuple) else (own,)
    if isinstance(key, tuple) and key and key[: len(parts)] == parts:
        return f"{FIRST} {len(own)}" if isinstance(own, tuple) else FIRST
    texts = isinstance(key, str | bytes) and isinstance(own, str | bytes)
    return WHOLE if texts and _bytes(key) == _bytes(own) else None


def places(key: Any, known: Iterable[Partitioning], partitions: int) -> list[int]:
    """The partitions that a key may be in, the likeliest first.

    Example:
        >>> places(("a", 1), [(2, FIRST)], 64) == partitions_of(["a"], 64)
        True
    """
    ways = [_by(key, way) for way in _ways(key, known)]
    return list(dict.fromkeys(partitions_of(ways, partitions)))


def _by(key: Any, way: str) -> Any:
    """What a key's stream is partitioned by."""
    if way == NOTHING:
        return None
    if way == WHOLE:
        return key
    return key[0] if way == FIRST else key[: int(way.removeprefix(FIRST))]


def own(key: Any, known: Iterable[Partitioning]) -> Any:
    """What the stream was partitioned by that has written a key; ``None`` where by nothing.

    Where there are several ways, it is the key itself.

    Example:
        >>> own(("a", 1), [(2, FIRST)]), own("a", [])
        ('a', 'a')
    """
    ways = [way for count, way in known if count == _parts(key)]
    return _by(key, ways[0]) if len(ways) == 1 else key


def home(table: str, key: Any, shards: Sequence[TableShard]) -> int:
    """The partition that a key lies in; where it is in none, where it would be looked for.

    Args:
        table: The table's name.
        key: The key.
        shards: The table in each partition.

    Raises:
        PartitionError: When it lies in several.
    """
    known = dict.fromkeys(one for shard in shards for one in shard.partitionings)
    asked = places(key, known, len(shards))
    if len(asked) == 1:
        return asked[0]
    there = [number for number in asked if shards[number].holds(key)]
    if len(there) > 1:
        by = _in_words(_ways(key, known))
        raise PartitionError(
            f"table {table!r} has {key!r} in the partitions {', '.join(map(str, sorted(there)))}: "
            f"it is written by streams that are partitioned by {by}; partition "
            "them in one way, with source(key=...) or stream.group_by(...)"
        )
    return there[0] if there else asked[0]


def _in_words(ways: Iterable[str]) -> str:
    words = {WHOLE: "the whole key", NOTHING: "nothing", FIRST: "its first part"}
    return " and by ".join(words.get(way, f"its {way} parts") for way in ways)


def _ways(key: Any, known: Iterable[Partitioning]) -> list[str]:
    """What of a key streams may have been partitioned by."""
    parts = _parts(key)
    ways = [way for count, way in known if count == parts]
    # That keys which are no tuples lie by the whole of them isn't taken note of.
    return ways if parts and ways else list(dict.fromkeys([*ways, WHOLE]))


def _parts(key: Any) -> int:
    return len(key) if isinstance(key, tuple) else 0


def _bytes(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


def _field(value: Any, key: Any) -> str:
    """The field that the key was taken from, as one would write it."""
    fields = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    for name, found in fields.items():
        if type(found) is type(key) and found == key:
            return repr(name)
    return "..."
