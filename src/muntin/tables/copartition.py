"""Which partition owns a key, and the check that a table is written where its key belongs.

Source: the guide of Faust, "Co-partitioning Tables and Streams" and "Table Sharding". What it warns
of is an error here: a key must not come to lie in several partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from muntin.engine.hashing import hash_rows
from muntin.model.errors import PartitionError
from muntin.stores.keys import encode_part
from muntin.tables.current import Cursor


def owners(keys: Sequence[Any], partitions: int) -> list[int]:
    """The partition of each key; events without a key all go to the first.

    The hash is the one that Spark's shards are chosen by, so that a key has the same number in
    every runtime of as many partitions.

    Example:
        >>> owners(["a", b"a", None], 1)
        [0, 0, 0]
        >>> len(set(owners(["a", b"a"], 64)))
        1
    """
    if partitions == 1:
        return [0] * len(keys)
    kinds = set(map(type, keys))
    if kinds == {str}:
        return _hashed(pl.Series(keys, dtype=pl.String), partitions)
    if kinds == {int} and all(-(1 << 63) <= key < 1 << 63 for key in keys):
        return _hashed(pl.Series(keys, dtype=pl.Int64), partitions)
    if kinds == {bytes}:
        return _hashed(pl.Series(keys, dtype=pl.Binary), partitions)
    if len(kinds) > 1:
        return [owners([key], partitions)[0] for key in keys]
    if kinds == {type(None)}:
        return [0] * len(keys)
    return _hashed(pl.Series([encode_part(key) for key in keys], dtype=pl.Binary), partitions)


def _hashed(keys: pl.Series, partitions: int) -> list[int]:
    found: list[int] = (hash_rows([keys]) % partitions).tolist()
    return found


def check(table: str, key: Any, cursor: Cursor) -> None:
    """Refuse to write a table under a key that belongs elsewhere.

    A key belongs to the event's partition if it is what the stream is partitioned by, or a tuple
    that begins with it. A stream without keys is one partition, where every key belongs.

    Raises:
        PartitionError: Naming the table, the keys and the cure.
    """
    own = cursor.key
    if own is None or key == own:
        return
    if isinstance(key, tuple) and key[: len(_tuple(own))] == _tuple(own):
        return
    if isinstance(key, str | bytes) and isinstance(own, str | bytes) and _bytes(key) == _bytes(own):
        return
    raise PartitionError(
        f"table {table!r} is written under {key!r} by the agent {cursor.agent!r}, whose stream is "
        f"partitioned by {own!r}: the key would come to lie in several partitions; loop over "
        f"stream.group_by({_field(cursor.value, key)}) in an agent of its own"
    )


def _tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _bytes(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


def _field(value: Any, key: Any) -> str:
    """The field that the key was taken from, as one would write it."""
    fields = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    for name, found in fields.items():
        if type(found) is type(key) and found == key:
            return repr(name)
    return "..."
