"""The RocksDB form (``rocksdict``): for more state than memory holds, on a disk of this machine."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.model.errors import MissingExtraError, MuntinError, StateCorruptedError
from muntin.stores.kv import KeyValue, Row, check_key
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
    """RocksDB's own objects, which keep its folder locked: closing the store releases them."""

    __slots__ = ("__weakref__", "rows")

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def living(self) -> Any:
        """The object."""
        if self.rows is None:
            raise MuntinError("the store was closed while it was read; open it again")
        return self.rows


class _RocksView:
    """What is stored at one moment, under what wasn't flushed at that moment.

    One iterator serves all scans of a view: an iterator of RocksDB reads what was there when it
    was made, while rocksdict's ``Snapshot.iter`` (seen in 0.3.29) also shows later writes.
    """

    def __init__(self, kv: RocksKeyValue, pending: PagesView, ranges: KeyRanges) -> None:
        self._stored = kv.hold(kv.database.iter())
        self._pending = pending
        self._ranges = ranges
        self._turn: object = None  # whose place the iterator stands at

    def get(self, key: bytes) -> bytes | None:
        """See ``Snapshot``."""
        waiting = self._pending.get(key)
        if waiting is not None:
            return waiting[1:] if waiting[:1] == _HERE else None
        if _within(key, self._ranges):
            return None
        row = next(self._stored_rows(key, key + _FIRST, False), None)
        return None if row is None else row[1]

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Row]:
        """See ``Snapshot``."""
        stored = self._stored_rows(max(low or _FIRST, _FIRST), high, reverse)
        if self._ranges:
            stored = (row for row in stored if not _within(row[0], self._ranges))
        if not self._pending.pages:
            return stored
        return _over(self._pending.scan(low, high, reverse=reverse), stored, reverse)

    def _stored_rows(self, low: bytes, high: bytes | None, reverse: bool) -> Iterator[Row]:
        mine = self._turn = object()
        self._seek(low, high, reverse)
        while (rows := self._stored.living()).valid():
            row: Row = (rows.key(), rows.value())
            del rows  # while the reader pauses, only what close() can release may hold them
            if row[0] < low or (high is not None and row[0] >= high):
                break
            yield row
            if self._turn is not mine:
                self._turn = mine
                self._stored.living().seek(row[0])
            if reverse:
                self._stored.living().prev()
            else:
                self._stored.living().next()
        self._stored.living().status()

    def _seek(self, low: bytes, high: bytes | None, reverse: bool) -> None:
        rows = self._stored.living()
        if not reverse:
            rows.seek(low)
        elif high is None:
            rows.seek_to_last()
        else:
            rows.seek_for_prev(high)
            if rows.valid() and rows.key() == high:
                rows.prev()


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

    def __init__(self, path: str | Path, *, sync: bool = True) -> None:
        self._held: weakref.WeakSet[_Held] = weakref.WeakSet()
        self.database = _open(Path(path))
        try:
            super().__init__(_document(self.database))
        except StateCorruptedError:
            self.database.close()
            raise
        self._sync = sync
        self._pending = Pages(_PAGE_BYTES)
        self._ranges: KeyRanges = ()

    def hold(self, rows: Any) -> _Held:
        """Remember an object of RocksDB's, to release it when the store is closed."""
        held = _Held(rows)
        self._held.add(held)
        return held

    def get(self, key: bytes) -> bytes | None:
        """See ``KeyValue``."""
        self._require_open()
        waiting = self._pending.get(key)
        if waiting is not None:
            return waiting[1:] if waiting[:1] == _HERE else None
        if _within(key, self._ranges):
            return None
        found: bytes | None = self.database.get(key) if key else None
        return found

    def put(self, key: bytes, value: bytes) -> None:
        """See ``KeyValue``."""
        self._require_open()
        check_key(key)
        self._pending.put(key, _HERE + value)

    def delete(self, key: bytes) -> None:
        """See ``KeyValue``."""
        self._require_open()
        if key:
            self._pending.put(key, _GONE)

    def delete_range(self, low: bytes, high: bytes) -> None:
        """See ``KeyValue``."""
        self._require_open()
        low = max(low, _FIRST)
        if low >= high:
            return
        self._pending.delete_range(low, high)
        others = [r for r in self._ranges if not (low <= r[0] and r[1] <= high)]
        if not any(first <= low and high <= last for first, last in others):
            others.append((low, high))
        self._ranges = tuple(others)

    def _view(self) -> _RocksView:
        return _RocksView(self, self._pending.snapshot(), self._ranges)

    def _commit(self, document: str) -> None:
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
        options.sync = self._sync
        self.database.write(batch, options)
        self._pending, self._ranges = Pages(_PAGE_BYTES), ()

    def _release(self) -> None:
        for held in self._held:
            held.rows = None
        self.database.close()


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
