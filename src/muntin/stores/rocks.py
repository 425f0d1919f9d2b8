"""``KeyValue`` in RocksDB (``rocksdict``): more state than memory holds, on a local disk."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.model.errors import MissingExtraError, MuntinError, StateCorruptedError
from muntin.stores.kv import KeyValue, Row
from muntin.stores.pages import Pages, PagesView

if TYPE_CHECKING:
    from rocksdict import Rdict

# The empty key holds marks and counts, which are written together with the rows.
_DOCUMENT = b""
_FIRST = b"\x00"

# Rows that wait for the next flush are in pages of this many bytes.
_PAGE_BYTES = 16 << 10
_DELETED, _PRESENT = b"\x00", b"\x01"

KeyRanges = tuple[tuple[bytes, bytes], ...]


class _OpenIterator:
    """An iterator of RocksDB, which locks the folder until closing the store releases it."""

    __slots__ = ("__weakref__", "rows")

    def __init__(self, rows: Any) -> None:
        self.rows = rows


class _RocksView:
    """A snapshot: the stored rows, below the rows that waited for a flush at the time.

    One iterator serves all scans of a view. An iterator of RocksDB reads the rows as of its
    creation, while rocksdict's ``Snapshot.iter`` (in 0.3.29) also returns later writes.
    """

    def __init__(self, stored: _OpenIterator, pending: PagesView, ranges: KeyRanges) -> None:
        self._stored = stored
        self._pending = pending
        self._ranges = ranges
        self._turn: object = None  # the scan for which the iterator is positioned

    def get(self, key: bytes) -> bytes | None:
        waiting = self._pending.get(key)
        if waiting is not None or _is_in_ranges(key, self._ranges):
            return _decode_pending(waiting)
        row = next(self._scan_stored(key, key + _FIRST, False), None)
        return None if row is None else row[1]

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Row]:
        stored = self._scan_stored(max(low or _FIRST, _FIRST), high, reverse)
        if self._ranges:
            stored = (row for row in stored if not _is_in_ranges(row[0], self._ranges))
        if not self._pending.pages:
            return stored
        return _merge_rows(self._pending.scan(low, high, reverse=reverse), stored, reverse)

    def _scan_stored(self, low: bytes, high: bytes | None, reverse: bool) -> Iterator[Row]:
        turn = self._turn = object()
        self._seek(low, high, reverse)
        while self._stored.rows.valid():
            # While the reader pauses, only the object that close() releases may hold the iterator.
            row: Row = (self._stored.rows.key(), self._stored.rows.value())
            if row[0] < low or (high is not None and row[0] >= high):
                break
            yield row
            if self._turn is not turn:
                self._turn = turn
                self._stored.rows.seek(row[0])
            if reverse:
                self._stored.rows.prev()
            else:
                self._stored.rows.next()
        self._stored.rows.status()

    def _seek(self, low: bytes, high: bytes | None, reverse: bool) -> None:
        rows = self._stored.rows
        if not reverse:
            rows.seek(low)
        elif high is None:
            rows.seek_to_last()
        else:
            rows.seek_for_prev(high)
            if rows.valid() and rows.key() == high:
                rows.prev()


class _RocksRows:
    """The rows in RocksDB, below those that wait in memory for the next flush."""

    def __init__(self, database: Rdict) -> None:
        self.database = database
        self._open_iterators: weakref.WeakSet[_OpenIterator] = weakref.WeakSet()
        self._pending = Pages(_PAGE_BYTES)
        self._ranges: KeyRanges = ()

    def get(self, key: bytes) -> bytes | None:
        waiting = self._pending.get(key)
        if waiting is not None or _is_in_ranges(key, self._ranges):
            return _decode_pending(waiting)
        value: bytes | None = self.database.get(key) if key else None
        return value

    def put(self, key: bytes, value: bytes) -> None:
        self._pending.put(key, _PRESENT + value)

    def delete(self, key: bytes) -> None:
        if key:
            self._pending.put(key, _DELETED)

    def delete_range(self, low: bytes, high: bytes) -> None:
        low = max(low, _FIRST)
        if low >= high:
            return
        self._pending.delete_range(low, high)
        others = [r for r in self._ranges if not (low <= r[0] and r[1] <= high)]
        if not any(first <= low and high <= last for first, last in others):
            others.append((low, high))
        self._ranges = tuple(others)

    def snapshot(self) -> _RocksView:
        iterator = _OpenIterator(self.database.iter())
        self._open_iterators.add(iterator)
        return _RocksView(iterator, self._pending.snapshot(), self._ranges)

    def flush(self, document: str, sync: bool) -> None:
        from rocksdict import WriteBatch, WriteOptions

        batch = WriteBatch(raw_mode=True)
        # Rows written after a range was deleted are pending, so they are applied later.
        for low, high in self._ranges:
            batch.delete_range(low, high)
        for key, waiting in self._pending.snapshot().scan():
            if waiting[:1] == _PRESENT:
                batch.put(key, waiting[1:])
            else:
                batch.delete(key)
        batch.put(_DOCUMENT, document.encode())
        options = WriteOptions()
        options.sync = sync
        self.database.write(batch, options)
        self._pending, self._ranges = Pages(_PAGE_BYTES), ()

    def close(self) -> None:
        for iterator in self._open_iterators:
            iterator.rows = None
        self.database.close()


class RocksKeyValue(KeyValue):
    """``KeyValue`` in a folder.

    Writes wait in memory until ``flush``, which is one RocksDB write batch. Keys and values are
    raw bytes; nothing is pickled.

    Args:
        path: The folder; it is created if it doesn't exist. One process at a time can open it.
        sync: Whether a flush waits for the disk. If not, a flush survives a crash of the process
            but perhaps not a loss of power.

    Raises:
        MissingExtraError: When ``rocksdict`` isn't installed.
        MuntinError: When the folder is open elsewhere.
        StateCorruptedError: When the folder has other contents, or is damaged.
    """

    _rows: _RocksRows

    def __init__(self, path: str | Path, *, sync: bool = True) -> None:
        database = _open(Path(path))
        try:
            super().__init__(_RocksRows(database), _read_document(database))
        except StateCorruptedError:
            database.close()
            raise
        self._sync = sync

    def _commit(self, document: str) -> None:
        self._rows.flush(document, self._sync)

    def _release(self) -> None:
        self._rows.close()


def _open(path: Path) -> Rdict:
    try:
        from rocksdict import Options, Rdict
    except ImportError as error:
        raise MissingExtraError("the RocksDB store", "rocks") from error
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    path.mkdir(parents=True, exist_ok=True)
    try:
        return Rdict(str(path), options)
    except Exception as error:  # rocksdict raises nothing narrower
        # "While lock file: …/LOCK: …", "lock hold by current process, …: …/LOCK: …".
        if f"{path}/LOCK: " in str(error):
            raise MuntinError(f"the folder {path} is open elsewhere; close it there") from error
        raise StateCorruptedError(f"the folder {path} can't be opened: {error}") from error


def _read_document(database: Rdict) -> str | None:
    document: bytes | None = database.get(_DOCUMENT)
    if document is None and next(iter(database.items()), None) is not None:
        raise StateCorruptedError(f"{database.path()} holds rows that muntin didn't write")
    return None if document is None else document.decode()


def _decode_pending(waiting: bytes | None) -> bytes | None:
    """Return the value of a pending row; ``None`` if there is none or it was deleted."""
    return waiting[1:] if waiting is not None and waiting[:1] == _PRESENT else None


def _is_in_ranges(key: bytes, ranges: KeyRanges) -> bool:
    return any(low <= key < high for low, high in ranges)


def _merge_rows(waiting: Iterator[Row], stored: Iterator[Row], reverse: bool) -> Iterator[Row]:
    """Merge pending and stored rows in order; a pending row hides the stored one of its key."""
    new, old = next(waiting, None), next(stored, None)
    while new is not None or old is not None:
        if new is None or (old is not None and old[0] != new[0] and (old[0] < new[0]) != reverse):
            assert old is not None
            yield old
            old = next(stored, None)
            continue
        if old is not None and old[0] == new[0]:
            old = next(stored, None)
        if new[1][:1] == _PRESENT:
            yield new[0], new[1][1:]
        new = next(waiting, None)
