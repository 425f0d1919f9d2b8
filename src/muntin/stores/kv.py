"""What every store is built on: ordered rows of bytes, snapshots, and one atomic flush.

Three forms keep the same promises, and one suite of tests holds them to it: ``memory`` (this
process), ``rocks`` (RocksDB on a disk) and ``paged`` (numbered blobs; in Spark's state,
``muntin.spark.stores``). Source of the promises: the Samza SQL window operator design (message
store and window metadata are flushed together with the offset) and the in-memory window store's
proposal (a fetch is a snapshot).
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from muntin.model.closeable import Closeable
from muntin.model.errors import MuntinError, OptionError, StateCorruptedError

FORMAT = 1

Row = tuple[bytes, bytes]
Counts = Callable[[], dict[str, Any]]


class Snapshot(Protocol):
    """Rows as they were at one moment."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; ``None`` where there is none."""

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Row]:
        """Rows from ``low`` to below ``high`` in order of keys, or in exactly the reverse."""


class WritableRows(Protocol):
    """Rows that are read and written; what isn't flushed yet is among them."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; ``None`` where there is none."""

    def put(self, key: bytes, value: bytes) -> None:
        """Add or replace a row."""

    def delete(self, key: bytes) -> None:
        """Forget a row; nothing happens where there is none."""

    def delete_range(self, low: bytes, high: bytes) -> None:
        """Forget the rows from ``low`` to below ``high``, without looking at each."""

    def snapshot(self) -> Snapshot:
        """The rows as they are now."""


class WhileOpen:
    """A view that ends with its store: what is asked after ``close`` is an error in every form."""

    __slots__ = ("_kv", "_view")

    def __init__(self, kv: KeyValue, view: Snapshot) -> None:
        self._kv = kv
        self._view = view

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key as of the snapshot."""
        self._require_open()
        return self._view.get(key)

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Row]:
        """Yield the rows from ``low`` up to ``high``, as of the snapshot."""
        self._require_open()
        rows = self._view.scan(low, high, reverse=reverse)
        while (row := next(rows, None)) is not None:
            yield row
            self._require_open()

    def _require_open(self) -> None:
        if self._kv.closed:
            raise MuntinError("the store was closed while it was read; open it again")


class KeyValue(Closeable):
    """Ordered rows of bytes with a buffered write side.

    Guarantees:
        - Reads see the writes of this object, flushed or not.
        - A snapshot, and with it a scan, is strict: no later write shows in it, and no row that
          was there vanishes from it, whatever is deleted or flushed meanwhile. It ends with the
          store: what is read of it after ``close`` is an error.
        - ``flush`` is atomic: the rows of all stores in here, their counts and the marks become
          durable together. Whatever is opened after a crash is the last flush, whole.

    Closing doesn't flush: only the caller knows whether what was written is complete.

    Keys are not empty. A form has its own rows and its own ``_commit``, where its atomicity lies.

    Args:
        rows: The rows as of the last ``_commit``.
        document: What that was given; ``None`` where there was none.
    """

    def __init__(self, rows: WritableRows, document: str | None) -> None:
        self.closed = False
        self._rows = rows
        self._marks: dict[str, Any] = {}
        self._stored: dict[str, Any] = {}
        self._open: dict[str, Counts] = {}
        if document is not None:
            self._adopt(document)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; ``None`` where there is none.

        Raises:
            StateCorruptedError: When it is stored and can't be read back as it was written.
        """
        self._require_open()
        return self._rows.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Add or replace a row; durable with the next flush.

        Raises:
            OptionError: When the key is empty.
        """
        self._require_open()
        if not key:
            raise OptionError("key", key, "is empty", "give at least one byte")
        self._rows.put(key, value)

    def delete(self, key: bytes) -> None:
        """Forget a row; nothing happens where there is none."""
        self._require_open()
        self._rows.delete(key)

    def delete_range(self, low: bytes, high: bytes) -> None:
        """Forget the rows from ``low`` to below ``high``, without looking at each."""
        self._require_open()
        self._rows.delete_range(low, high)

    def snapshot(self) -> Snapshot:
        """The rows as they are now, unflushed ones included."""
        self._require_open()
        return WhileOpen(self, self._rows.snapshot())

    @abstractmethod
    def _commit(self, document: str) -> None:
        """Make all writes since the last time durable with this document, or none of them."""

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Row]:
        """Rows from ``low`` to below ``high``, as they are now; backwards is the exact reverse."""
        return self.snapshot().scan(low, high, reverse=reverse)

    @property
    def marks(self) -> dict[str, Any]:
        """Values that flushes stored beside the rows, for instance ``{"offset": 41}``."""
        return dict(self._marks)

    def flush(self, marks: Mapping[str, Any] | None = None) -> None:
        """Make everything since the last flush durable at once.

        Args:
            marks: Values to keep with it, by name (JSON: the source's offset, say). They are in
                the same atomic write, and ``marks`` reads them back after a restart.

        Raises:
            OptionError: When a mark can't be written as JSON. Nothing is flushed then.
        """
        self._require_open()
        kept = {**self._marks, **(marks or {})}
        stores = {**self._stored, **{name: counts() for name, counts in self._open.items()}}
        try:
            document = json.dumps({"format": FORMAT, "marks": kept, "stores": stores})
        except (TypeError, ValueError) as error:
            hint = "give text, numbers, lists and dictionaries"
            raise OptionError("marks", marks, "can't be written as JSON", hint) from error
        self._commit(document)
        self._marks, self._stored = kept, stores

    def admit(self, name: str, counts: Counts) -> dict[str, Any] | None:
        """Let a store keep its rows in here.

        Args:
            name: The store's name; no two in here share one.
            counts: What to keep of the store besides its rows (JSON); asked at each flush.

        Returns:
            What the counts were at the last flush; ``None`` for a store that is new.

        Raises:
            OptionError: When a store of that name is already open in here.
        """
        self._require_open()
        if not name or name in self._open:
            raise OptionError("name", name, "is taken by another store", "give each its own name")
        self._open[name] = counts
        return self._stored.get(name)

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Free the names that the block took if it fails, and close a store opened for it alone."""
        before = dict(self._open)
        try:
            yield
        except BaseException:
            self._open = before
            if not before:
                self.close()
            raise

    def close(self) -> None:
        """Close without flushing; a second call does nothing."""
        if not self.closed:
            self.closed = True
            self._release()

    def _release(self) -> None:
        """Release what is held; called once."""
        del self._rows

    def _require_open(self) -> None:
        if self.closed:
            raise MuntinError("the store is closed; open it again")

    def _adopt(self, document: str) -> None:
        try:
            read = json.loads(document)
            version, self._marks, self._stored = read["format"], read["marks"], read["stores"]
        except (KeyError, TypeError, ValueError) as error:
            raise StateCorruptedError("the marks of a store can't be read") from error
        if version != FORMAT:
            raise StateCorruptedError(
                f"a store has format {version}, this muntin reads format {FORMAT}: "
                "use the muntin that wrote it"
            )
