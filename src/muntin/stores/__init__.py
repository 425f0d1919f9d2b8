"""The three stores of windows, over memory, RocksDB or numbered blobs.

``MessageStore`` keeps messages, ``WindowStore`` a value per window, ``SessionStore`` the aggregates
of sessions. Each stands on a ``KeyValue`` (ordered rows of bytes, one atomic flush), and several
may share one, so that they are flushed together with the offset of the source. Nothing in here
knows Spark or the engine.

What a row's bytes are is said once: ``keys`` turns tuples into bytes that sort as they do,
``values`` turns values into bytes, and ``layout`` chooses the parts of a message's key.
``namespace`` puts the store's name before its keys, and ``segments`` drops what has expired by
ranges of them. Where rows lie is the form's: ``memory`` and ``paged`` keep sorted ``pages``,
``rocks`` a folder. ``blobs`` is the other way round: rows that hold the engine's blobs.

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
from muntin.stores.kv import KeyValue
from muntin.stores.layout import Layout, message_layout
from muntin.stores.memory import Image, MemoryKeyValue
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
    """Rows in this process; a flush goes to ``image``, which can be opened again."""
    return MemoryKeyValue(image)


def rocks(path: str | Path, *, sync: bool = True) -> RocksKeyValue:
    """Rows in a folder, by RocksDB; see ``muntin.stores.rocks.RocksKeyValue``.

    Raises:
        MissingExtraError: When ``rocksdict`` isn't installed (the extra ``rocks``).
    """
    return RocksKeyValue(path, sync=sync)


def paged(blobs: Blobs) -> PagedKeyValue:
    """Rows in numbered blobs; ``muntin.spark.stores.spark_state`` has them in Spark's state."""
    return PagedKeyValue(blobs)
