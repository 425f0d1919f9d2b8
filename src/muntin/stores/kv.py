"""Ordered rows of bytes with snapshots and one atomic flush, on which every store is built.

Three implementations give the same guarantees and share one test suite: ``memory`` (this
process), ``rocks`` (RocksDB on a disk) and ``paged`` (numbered blobs; in Spark's state,
``muntin.spark.stores``). Sources of the guarantees: the Samza SQL window operator design (message
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
from muntin.stores.pages import Pages, PagesView

_FORMAT = 1
MEMORY_PAGE_BYTES = 16 << 10

Row = tuple[bytes, bytes]
ReadCounts = Callable[[], dict[str, Any]]


class Snapshot(Protocol):
    """Rows as of one point in time, whatever is written later."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or ``None``."""

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Row]:
        """Iterate over the rows from ``low`` to below ``high``, in order of keys or reversed."""


class WritableRows(Protocol):
    """Rows that are read and written; reads include writes that aren't flushed."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or ``None``."""

    def put(self, key: bytes, value: bytes) -> None:
        """Add or replace a row."""

    def delete(self, key: bytes) -> None:
        """Delete a row, if there is one."""

    def delete_range(self, low: bytes, high: bytes) -> None:
        """Delete the rows from ``low`` to below ``high``, without reading them."""

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the rows."""


class WhileOpen:
    """A snapshot that can be read until its store is closed."""

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
    """Ordered rows of bytes with buffered writes.

    Guarantees:
        - Reads include the writes of this object, flushed or not.
        - A snapshot, and so a scan, is strict: no later write appears in it, and no row
          disappears from it, whatever is deleted or flushed meanwhile. It ends with the
          store: reading it after ``close`` is an error.
        - ``flush`` is atomic: the rows and counts of all registered stores, and the marks, become
          durable together. After a crash, the state is exactly that of the last flush.

    Closing doesn't flush: only the caller knows whether its writes are complete.

    Keys are not empty. A subclass provides the rows and an atomic ``_commit``.

    Args:
        rows: The rows as of the last ``_commit``.
        document: The document of the last ``_commit``, or ``None``.
    """

    def __init__(self, rows: WritableRows, document: str | None) -> None:
        self.closed = False
        self._rows = rows
        self._marks: dict[str, Any] = {}
        self._stored: dict[str, Any] = {}
        self._registered: dict[str, ReadCounts] = {}
        if document is not None:
            self._load_document(document)

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or ``None``.

        Raises:
            StateCorruptedError: When the stored value can't be read.
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
        """Delete a row, if there is one."""
        self._require_open()
        self._rows.delete(key)

    def delete_range(self, low: bytes, high: bytes) -> None:
        """Delete the rows from ``low`` to below ``high``, without reading them."""
        self._require_open()
        self._rows.delete_range(low, high)

    def snapshot(self) -> Snapshot:
        """Return a snapshot of the rows, including writes that aren't flushed."""
        self._require_open()
        return WhileOpen(self, self._rows.snapshot())

    @abstractmethod
    def _commit(self, document: str) -> None:
        """Make all writes since the last commit durable with this document, or none of them."""

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Row]:
        """Iterate over a snapshot from ``low`` to below ``high``, in order of keys or reversed."""
        return self.snapshot().scan(low, high, reverse=reverse)

    @property
    def marks(self) -> dict[str, Any]:
        """The values that ``flush`` stored beside the rows, for example ``{"offset": 41}``."""
        return dict(self._marks)

    def flush(self, marks: Mapping[str, Any] | None = None) -> None:
        """Make everything since the last flush durable at once.

        Args:
            marks: Values to store in the same atomic write, by name (JSON), for example the
                source's offset. The property ``marks`` returns them, also after a restart.

        Raises:
            OptionError: When a mark can't be written as JSON. Nothing is flushed then.
        """
        self._require_open()
        all_marks = {**self._marks, **(marks or {})}
        stores = {**self._stored, **{name: counts() for name, counts in self._registered.items()}}
        try:
            document = json.dumps({"format": _FORMAT, "marks": all_marks, "stores": stores})
        except (TypeError, ValueError) as error:
            hint = "give text, numbers, lists and dictionaries"
            raise OptionError("marks", marks, "can't be written as JSON", hint) from error
        self._commit(document)
        self._marks, self._stored = all_marks, stores

    def register(self, name: str, counts: ReadCounts) -> dict[str, Any] | None:
        """Register a store that keeps its rows in this object.

        Args:
            name: The store's name, unique in this object.
            counts: Returns what to store besides the rows (JSON); called at each flush.

        Returns:
            The result of ``counts`` at the last flush; ``None`` for a new store.

        Raises:
            OptionError: When a store of that name is already registered.
        """
        self._require_open()
        if not isinstance(name, str) or not name:
            raise OptionError("name", name, "isn't a name", 'give a text such as "visits"')
        if name in self._registered:
            raise OptionError("name", name, "is taken by another store", "give each its own name")
        self._registered[name] = counts
        return self._stored.get(name)

    @contextmanager
    def undo_on_failure(self) -> Iterator[None]:
        """Undo registrations if the block fails, and close a store that only the block uses."""
        before = dict(self._registered)
        try:
            yield
        except BaseException:
            self._registered = before
            if not before:
                self.close()
            raise

    def close(self) -> None:
        """Close without flushing; a second call does nothing."""
        if not self.closed:
            self.closed = True
            self._release()

    def _release(self) -> None:
        """Release resources; called once."""
        del self._rows

    def _require_open(self) -> None:
        if self.closed:
            raise MuntinError("the store is closed; open it again")

    def _load_document(self, document: str) -> None:
        try:
            parsed = json.loads(document)
            version, self._marks, self._stored = parsed["format"], parsed["marks"], parsed["stores"]
        except (KeyError, TypeError, ValueError) as error:
            raise StateCorruptedError("the marks of a store can't be read") from error
        if version != _FORMAT:
            raise StateCorruptedError(
                f"a store has format {version}, this muntin reads format {_FORMAT}: "
                "use the muntin that wrote it"
            )


class Image:
    """The rows and marks of the last flush, in memory; a store opened on it starts with them."""

    def __init__(self) -> None:
        self.document: str | None = None
        self.view: PagesView | None = None

    def replace(self, document: str, view: PagesView) -> None:
        """Replace the image with a newer flush."""
        self.document, self.view = document, view


class MemoryKeyValue(KeyValue):
    """``KeyValue`` in memory; a flush costs the same however much is stored.

    Args:
        image: The target of flushes; a new one by default. Opening the same image again
            corresponds to a restart.
        page_bytes: The maximum size of a page, bytes of keys and values.
    """

    _rows: Pages

    def __init__(self, image: Image | None = None, *, page_bytes: int = MEMORY_PAGE_BYTES) -> None:
        self.image = image or Image()
        super().__init__(Pages(page_bytes, self.image.view), self.image.document)

    def _commit(self, document: str) -> None:
        self.image.replace(document, self._rows.snapshot())
