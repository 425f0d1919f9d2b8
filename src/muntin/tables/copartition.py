"""Assigns keys to partitions, and checks that a table is written in the partition of its key.

Source: the guide of Faust, "Co-partitioning Tables and Streams" and "Table Sharding". Faust warns
that a key may end up in several partitions; here that is an error.

An event is in the partition of its own key. The keys of a table may have more parts than that, or
be unrelated to it if the stream has no keys. So a table records how its keys are partitioned
(``Partitioning``), and a read from outside looks into the partitions that may own a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl

from muntin.model.errors import PartitionError
from muntin.state.hashing import hash_rows
from muntin.tables.cells import build_key_column
from muntin.tables.current import EventCursor

if TYPE_CHECKING:
    from muntin.tables.shard import TableShard

Partitioning = tuple[int, str]
"""Number of parts of a key (0 unless it is a tuple), and the scope that the stream goes by."""
WHOLE, NOTHING, FIRST = "whole", "nothing", "first"


def assign_partitions(keys: Sequence[Any], partitions: int) -> list[int]:
    """Assign each key to a partition; events without a key all go to the first.

    Uses the same hash as Spark's shards, so a key has the same number on every host with as many
    partitions. Keys that compare equal in Python have the same owner.

    Example:
        >>> assign_partitions(["a", b"a", None], 1)
        [0, 0, 0]
        >>> len(set(assign_partitions(["a", b"a"], 64)))
        1
        >>> len(set(assign_partitions([1, 1.0, True], 64)))
        1
    """
    if partitions == 1:
        return [0] * len(keys)
    kinds = set(map(type, keys))
    if kinds & _COMPARABLE_TO_NUMBERS:
        keys = [_normalize_number(key) for key in keys]
        kinds = set(map(type, keys))
    # Integers too great for a column are hashed as bytes; the others aren't.
    has_great_integers = kinds == {int} and any(key.bit_length() > 63 for key in keys)
    if len(kinds) > 1 or (has_great_integers and len(keys) > 1):
        return [assign_partitions([key], partitions)[0] for key in keys]
    if kinds == {type(None)}:
        return [0] * len(keys)
    column = pl.Series(keys, dtype=pl.Binary) if kinds == {bytes} else build_key_column(keys)
    numbers: list[int] = (hash_rows([column]) % partitions).tolist()
    return numbers


# Types whose values may equal a number of another type, also inside of a tuple.
_COMPARABLE_TO_NUMBERS = {bool, float, Decimal, tuple}
# More digits than any float has, and the most that Python converts to an integer.
_MAX_DIGITS = 4300


def _normalize_number(key: Any) -> Any:
    """Return the representative of all keys that compare equal to this one."""
    if type(key) is tuple:
        return tuple(_normalize_number(part) for part in key)
    if type(key) not in _COMPARABLE_TO_NUMBERS:
        return key
    if isinstance(key, Decimal) and key.is_finite() and key.adjusted() > _MAX_DIGITS:
        # Converting it to an integer would take minutes, and all memory.
        sign, digits, exponent = key.as_tuple()
        text = "".join(map(str, digits))
        digits_text = text.rstrip("0")
        return f"{sign} {digits_text} {int(exponent) + len(text) - len(digits_text)}"
    try:
        whole = int(key)
        return whole if whole == key else float(key) if float(key) == key else key
    except (ArithmeticError, ValueError):
        return key  # not a number, or infinite


def check_partitioning(table: str, key: Any, cursor: EventCursor) -> Partitioning:
    """Return how a key is partitioned, or refuse a key that belongs to another partition.

    A key belongs to the event's partition if it is the stream's partition key, or a tuple that
    starts with it. A stream without keys is one partition, where every key belongs.

    Raises:
        PartitionError: When the key belongs to another partition.
    """
    own = cursor.key
    scope = _find_scope(key, own)
    if scope is not None:
        return _count_parts(key), scope
    raise PartitionError(
        f"table {table!r} is written under {key!r} by the agent {cursor.agent!r}, whose stream is "
        f"partitioned by {own!r}: the key would be in several partitions; loop over "
        f"stream.group_by({_quote_field(cursor.value, key)}) in an agent of its own"
    )


def belongs_to(key: Any, own: Any) -> bool:
    """Return whether a key belongs to the partition of an event with another key.

    Example:
        >>> belongs_to(("a", 1), "a"), belongs_to("b", "a")
        (True, False)
    """
    return _find_scope(key, own) is not None


def _find_scope(key: Any, own: Any) -> str | None:
    """Return the part of a key that its stream goes by, or ``None`` if the key doesn't belong."""
    if own is None:
        return NOTHING
    if key == own:
        return WHOLE
    parts = own if isinstance(own, tuple) else (own,)
    if isinstance(key, tuple) and key and key[: len(parts)] == parts:
        return f"{FIRST} {len(own)}" if isinstance(own, tuple) else FIRST
    texts = isinstance(key, str | bytes) and isinstance(own, str | bytes)
    return WHOLE if texts and _to_bytes(key) == _to_bytes(own) else None


def list_candidates(key: Any, partitionings: Iterable[Partitioning], partitions: int) -> list[int]:
    """List the partitions that a key may be in, most likely first.

    Example:
        >>> list_candidates(("a", 1), [(2, FIRST)], 64) == assign_partitions(["a"], 64)
        True
    """
    partition_keys = [
        _select_partition_key(key, scope) for scope in _list_scopes(key, partitionings)
    ]
    return list(dict.fromkeys(assign_partitions(partition_keys, partitions)))


def _select_partition_key(key: Any, scope: str) -> Any:
    """Return the value that the key's stream is partitioned by."""
    if scope == NOTHING:
        return None
    if scope == WHOLE:
        return key
    return key[0] if scope == FIRST else key[: int(scope.removeprefix(FIRST))]


def derive_partition_key(key: Any, partitionings: Iterable[Partitioning]) -> Any:
    """Return the partition key of the stream that wrote a key; ``None`` for a stream without keys.

    If several partitionings are possible, it is the key itself.

    Example:
        >>> derive_partition_key(("a", 1), [(2, FIRST)]), derive_partition_key("a", [])
        ('a', 'a')
    """
    scopes = [scope for count, scope in partitionings if count == _count_parts(key)]
    return _select_partition_key(key, scopes[0]) if len(scopes) == 1 else key


def find_partition(table: str, key: Any, shards: Sequence[TableShard]) -> int:
    """Find the partition of a key; if no partition has it, the one where it would be looked for.

    ``shards`` are those of the table, one of each partition.

    Raises:
        PartitionError: When several partitions have the key.
    """
    partitionings = dict.fromkeys(one for shard in shards for one in shard.partitionings)
    candidates = list_candidates(key, partitionings, len(shards))
    if len(candidates) == 1:
        return candidates[0]
    owners = [number for number in candidates if shards[number].has_key(key)]
    if len(owners) > 1:
        scopes = _describe_scopes(_list_scopes(key, partitionings))
        raise PartitionError(
            f"table {table!r} has {key!r} in the partitions {', '.join(map(str, sorted(owners)))}: "
            f"it is written by streams that are partitioned by {scopes}; partition "
            "them in one way, with source(key=...) or stream.group_by(...)"
        )
    return owners[0] if owners else candidates[0]


def _describe_scopes(scopes: Iterable[str]) -> str:
    words = {WHOLE: "the whole key", NOTHING: "nothing", FIRST: "its first part"}
    return " and by ".join(words.get(scope, f"its {scope} parts") for scope in scopes)


def _list_scopes(key: Any, partitionings: Iterable[Partitioning]) -> list[str]:
    """List what of a key streams may have been partitioned by."""
    parts = _count_parts(key)
    scopes = [scope for count, scope in partitionings if count == parts]
    # A key that isn't a tuple and is its own partition key isn't recorded.
    return scopes if parts and scopes else list(dict.fromkeys([*scopes, WHOLE]))


def _count_parts(key: Any) -> int:
    return len(key) if isinstance(key, tuple) else 0


def _to_bytes(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


def _quote_field(value: Any, key: Any) -> str:
    """Return the expression for the field that the key was taken from."""
    fields = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    for name, field_value in fields.items():
        if type(field_value) is type(key) and field_value == key:
            return repr(name)
    return "..."
