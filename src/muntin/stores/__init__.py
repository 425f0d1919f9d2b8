"""Stores of windows over ordered rows of bytes: in memory, in RocksDB, or in numbered blobs.

``MessageStore`` keeps messages, ``WindowStore`` a value per window, ``SessionStore`` the aggregates
of sessions. Each is built on a ``KeyValue`` (ordered rows of bytes, one atomic flush). Several may
share one, so that they are flushed together with the offset of the source. Nothing in this package
depends on Spark or the engine.

- ``keys`` encodes tuples as bytes that sort as the tuples do, and ``values`` encodes values.
- ``layout`` orders the parts of a message's key, and ``namespace`` puts the store's name before it.
- ``segments`` drops expired rows by ranges of keys.
- ``memory``, ``paged`` and ``rocks`` hold the rows: the first two in sorted ``pages``, the last in
  a folder.
- ``blobs`` stores the engine's blobs as rows.

Example:
    >>> from muntin.stores import WindowStore, memory
    >>> with memory() as kv:
    ...     store = WindowStore(kv, retention="1 hour")
    ...     _ = store.put("AA", 0, {"flights": 1})
    ...     store.flush({"offset": 41})
    ...     store.get("AA", 0), kv.marks
    ({'flights': 1}, {'offset': 41})
"""

from __future__ import annotations

from pathlib import Path

from muntin.state.blobs import Blobs
from muntin.stores.blobs import KeyValueBlobs
from muntin.stores.kv import Image, KeyValue, MemoryKeyValue
from muntin.stores.layout import Layout, message_layout
from muntin.stores.message import Message, MessageStore
from muntin.stores.paged import PagedKeyValue
from muntin.stores.rocks import RocksKeyValue
from muntin.stores.session import Session, SessionStore
from muntin.stores.values import WindowMeta
from muntin.stores.window import WindowRow, WindowStore

__all__ = [
    "Blobs",
    "Image",
    "KeyValue",
    "KeyValueBlobs",
    "Layout",
    "Message",
    "MessageStore",
    "Session",
    "SessionStore",
    "WindowMeta",
    "WindowRow",
    "WindowStore",
    "memory",
    "message_layout",
    "paged",
    "rocks",
]


def memory(image: Image | None = None) -> MemoryKeyValue:
    """Keep rows in this process; a flush goes to ``image``, which can be opened again."""
    return MemoryKeyValue(image)


def rocks(path: str | Path, *, sync: bool = True) -> RocksKeyValue:
    """Keep rows in a folder, with RocksDB (``muntin.stores.rocks.RocksKeyValue``).

    Args:
        path: The folder; it is created if it doesn't exist.
        sync: Whether a flush waits for the disk.

    Raises:
        MissingExtraError: When ``rocksdict`` isn't installed (the extra ``rocks``).
    """
    return RocksKeyValue(path, sync=sync)


def paged(blobs: Blobs) -> PagedKeyValue:
    """Keep rows in numbered blobs; ``muntin.spark.stores.spark_state`` uses Spark's state."""
    return PagedKeyValue(blobs)
