"""The RocksDB form (``rocksdict``): for more state than memory holds, on a disk of this machine."""

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

# The only empty key: marks and counts, in the same write as the rows.
_DOCUMENT = b""
_FIRST = b"\x00"

# What waits for the next flush lies in pages of this many bytes.
_PAGE_BYTES = 16 << 10
_GONE, _HERE = b"\x00", b"\x01"

KeyRanges = tuple[tuple[bytes, bytes], ...]


class _Held:
    """RocksDB's own object, which keeps its folder locked: closing the store releases it."""

    __slots__ = ("__weakref__", "rows")

    def __init__(self, rows: Any) -> None:
        self.rows = rows


class _RocksView:
    """A snapshot: the stored rows of one moment, below those that waited for a flush then.

    One iterator serves all scans of a view: an iterator of RocksDB reads what was there when it
    was made, while rocksdict's ``Snapshot.iter`` (seen in 0.3.29) also shows later writes.
    """

    def __init__(self, stored: _Held, pending: PagesView, ranges: KeyRanges) -> None:
        self._stored = stored
        self._pending = pending
        self._ranges = ranges
        self._turn: object = None  # whose place the iterator stands at

    def get(self, key: bytes) -> bytes | None:
        waiting = self._pending.get(key)
        if waiting is not None or _within(key, self._ranges):
            return _here(waiting)
        row = next(self._stored_rows(key, key + _FIRST, False), None)
        return None if row is None else row[1]

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Row]:
        stored = self._stored_rows(max(low or _FIRST, _FIRST), high, reverse)
        if self._ranges:
            stored = (row for row in stored if not _within(row[0], self._ranges))
        if not self._pending.pages:
            return stored
        return _over(self._pending.scan(low, high, reverse=reverse), stored, reverse)

    def _stored_rows(self, low: bytes, high: bytes | None, reverse: bool) -> Iterator[Row]:
        mine = self._turn = object()
        self._seek(low, high, reverse)
        while self._stored.rows.valid():
            # While the reader pauses, only what close() can release may hold the iterator.
            row: Row = (self._stored.rows.key(), self._stored.rows.value())
            if row[0] < low or (high is not None and row[0] >= high):
                break
            yield row
            if self._turn is not mine:
                self._turn = mine
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
        self._held: weakref.WeakSet[_Held] = weakref.WeakSet()
        self._pending = Pages(_PAGE_BYTES)
        self._ranges: KeyRanges = ()

    def get(self, key: bytes) -> bytes | None:
        waiting = self._pending.get(key)
        if waiting is not None or _within(key, self._ranges):
            return _here(waiting)
        found: bytes | None = self.database.get(key) if key else None
        return found

    def put(self, key: bytes, value: bytes) -> None:
        self._pending.put(key, _HERE + value)

    def delete(self, key: bytes) -> None:
        if key:
            self._pending.put(key, _GONE)

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
        held = _Held(self.database.iter())
        self._held.add(held)
        return _RocksView(held, self._pending.snapshot(), self._ranges)

    def flush(self, document: str, sync: bool) -> None:
        from rocksdict import WriteBatch, WriteOptions

        batch = WriteBatch(raw_mode=True)
        # What was written after a range was deleted is in the pending rows, so it comes behind.
        for low, high in self._ranges:
            batch.delete_range(low, high)
        for key, waiting in self._pending.snapshot().scan():
            if waiting[:1] == _HERE:
                batch.put(key, waiting[1:])
            else:
                batch.delete(key)
        batch.put(_DOCUMENT, document.encode())
        options = WriteOptions()
        options.sync = sync
        self.database.write(batch, options)
        self._pending, self._ranges = Pages(_PAGE_BYTES), ()

    def close(self) -> None:
        for held in self._held:
            held.rows = None
        self.database.close()


class RocksKeyValue(KeyValue):
    """``KeyValue`` in a folder.

    Writes wait in memory until ``flush``, which is one RocksDB write batch. Keys and values are
    raw bytes; nothing is pickled.

    Args:
        path: The folder; made where it doesn't exist. One process at a time opens it.
        sync: Whether a flush waits for the disk. Without it, a flush outlives the process but
            perhaps not a loss of power.

    Raises:
        MissingExtraError: When ``rocksdict`` isn't installed.
        MuntinError: When the folder is open elsewhere.
        StateCorruptedError: When the folder holds something else, or is damaged.
    """

    _rows: _RocksRows

    def __init__(self, path: str | Path, *, sync: bool = True) -> None:
        database = _open(Path(path))
        try:
            super().__init__(_RocksRows(database), _document(database))
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


def _document(database: Rdict) -> str | None:
    document: bytes | None = database.get(_DOCUMENT)
    if document is None and next(iter(database.items()), None) is not None:
        raise StateCorruptedError(f"{database.path()} holds rows that muntin didn't write")
    return None if document is None else document.decode()


def _here(waiting: bytes | None) -> bytes | None:
    """The value of a row that waits; ``None`` where there is none, or none any more."""
    return waiting[1:] if waiting is not None and waiting[:1] == _HERE else None


def _within(key: bytes, ranges: KeyRanges) -> bool:
    return any(low <= key < high for low, high in ranges)


def _over(waiting: Iterator[Row], stored: Iterator[Row], reverse: bool) -> Iterator[Row]:
    """Both in one order; of one key, what waits hides what is stored."""
    new, old = next(waiting, None), next(stored, None)
    while new is not None or old is not None:
        if new is None or (old is not None and old[0] != new[0] and (old[0] < new[0]) != reverse):
            assert old is not None
            yield old
            old = next(stored, None)
            continue
        if old is not None and old[0] == new[0]:
            old = next(stored, None)
        if new[1][:1] == _HERE:
            yield new[0], new[1][1:]
        new = next(waiting, None)
