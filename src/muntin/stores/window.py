"""The window store: one value for a key and a window's start, kept for a retention.

Sources: the in-memory window store's proposal (put, fetch, retention and grace apart, expired
segments dropped before each action, a fetch is a snapshot); the Samza SQL window operator design
(window metadata, with the aggregate in it where no message store is needed).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from muntin.model.axis import Duration, phrase
from muntin.model.errors import OptionError
from muntin.stores import keys
from muntin.stores.kv import KeyValue, Row
from muntin.stores.namespace import Namespace, NamespaceView, length, required_key
from muntin.stores.segments import SegmentedStore, segment_interval

# How many rows of other keys are passed by before the next place is looked up.
_NEAR = 1


class WindowRow(NamedTuple):
    """One row: a window's start (microseconds, or an offset), its key and what is kept of it."""

    time: int
    key: Any
    value: Any


class WindowStore(SegmentedStore):
    """Values by window start and key.

    Guarantees:
        - Rows come in order of time, then key, then arrival; ``reverse=True`` is exactly the
          opposite.
        - Only rows with ``time > observed - retention`` are read or taken, where ``observed`` is
          the greatest time that this store was given; older ones are gone for a reader at once,
          and from the store by whole segments before the next action.
        - What a fetch returns is what was there when it was called, however late it is read.
        - A write that isn't taken is counted (``expired``, ``late``), never an error.

    Args:
        kv: Where rows are kept; other stores may be in it.
        retention: How long after its start a row is kept.
        name: The store's name in ``kv``.
        grace: How far a written time may lie behind ``observed``; by default the retention.
            Operators enforce grace by themselves, so give one where there is no operator.
        segments: Into how many segments the retention is cut.
        minimum: The least length of a segment.
        retain_duplicates: Whether a put adds a row where there is one already. Nothing can be
            deleted then.
        codec: ``"json"``, ``"raw"`` (bytes) or ``"meta"`` (``WindowMeta``).

    Lengths are durations, or plain numbers in the axis' own unit (microseconds; offsets).
    Keys are what ``muntin.stores.keys`` can hold, tuples included.

    Raises:
        OptionError: When an option can't work.
        SpecChangedError: When the rows were written with other options.

    Example:
        >>> from muntin.stores import memory
        >>> store = WindowStore(memory(), retention=100, minimum=1)
        >>> for time, n in [(0, 1), (60, 2), (120, 3)]:
        ...     _ = store.put("AA", time, n)
        >>> [row.value for row in store.fetch("AA")]
        [2, 3]
        >>> store.put("AA", 20, 9), store.expired
        (False, 1)
    """

    def __init__(
        self,
        kv: KeyValue,
        *,
        retention: Duration | int,
        name: str = "windows",
        grace: Duration | int | None = None,
        segments: int = 3,
        minimum: Duration | int = "1 minute",
        retain_duplicates: bool = False,
        codec: str = "json",
    ) -> None:
        kept = length("retention", retention)
        self.grace = kept if grace is None else length("grace", grace)
        if self.grace > kept:
            hint = f"give at most the retention, {phrase(kept)}"
            raise OptionError("grace", grace, "is longer than rows are kept", hint)
        self.retain_duplicates = retain_duplicates
        interval = segment_interval(kept, segments, minimum)
        identity = {"kind": "window", "retain_duplicates": str(retain_duplicates)}
        super().__init__(Namespace(kv, name, identity, codec), kept, interval)

    @property
    def late(self) -> int:
        """Number of writes that were rejected after the grace, though within retention."""
        return self._namespace.counts.get("late", 0)

    def put(self, key: Any, time: int, value: Any) -> bool:
        """Keep a value for a window; ``None`` deletes it (nothing happens with duplicates).

        Returns:
            Whether the write was taken.

        Raises:
            OptionError: When the key is null, or the codec can't write the value.
        """
        within = required_key("key", key)
        written = None if value is None else self._namespace.codec.to_bytes(value)
        self.advance(time)
        if not self._takes(time):
            return False
        row = keys.encode_part(time) + within
        if written is None:
            self._namespace.delete(row)  # finds nothing among duplicates: they are numbered
            return True
        if self.retain_duplicates:
            row += keys.encode_part(self._namespace.counts.get("arrivals", 0))
            self._namespace.count("arrivals")
        self._namespace.put(row, written)
        return True

    def delete(self, key: Any, time: int) -> bool:
        """Forget a window; the same as putting ``None``."""
        return self.put(key, time, None)

    def get(self, key: Any, time: int) -> Any:
        """The value of one window, the first to arrive of several; ``None`` where there is none.

        Raises:
            OptionError: When the key is null.
        """
        if self.retain_duplicates:
            row = next(self.fetch(key, time, time), None)
            return None if row is None else row.value
        within = required_key("key", key)
        if self._live(time, time) is None:
            return None
        found = self._namespace.get(keys.encode_part(time) + within)
        return None if found is None else self._namespace.codec.from_bytes(found)

    def fetch(
        self, key: Any, start: int | None = None, end: int | None = None, *, reverse: bool = False
    ) -> Iterator[WindowRow]:
        """The rows of one key from ``start`` to ``end``, both included; ``None`` is open.

        Costs a look-up or a few rows for each window start in between, not each key's rows.

        Raises:
            OptionError: When the key is null.
        """
        within = required_key("key", key)
        bounds = self._live(start, end)
        if bounds is None:
            return iter(())
        low = keys.encode_part(bounds[0]) + within
        high = keys.AFTER if end is None else keys.encode_part(end) + within + keys.AFTER
        rows = _of_key(self._namespace.rows(low, high), within, reverse)
        return (self._read(row) for row in rows)

    def fetch_all(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        first_key: Any = None,
        last_key: Any = None,
        reverse: bool = False,
    ) -> Iterator[WindowRow]:
        """All rows from ``start`` to ``end`` and ``first_key`` to ``last_key``, all included.

        A bound that is ``None`` is open; bounds the wrong way round hold nothing.
        """
        bounds = self._live(start, end)
        if bounds is None:
            return iter(())
        high = keys.AFTER if end is None else keys.encode_part(end) + keys.AFTER
        view = self._namespace.rows(keys.encode_part(bounds[0]), high)
        rows = reversed(view) if reverse else iter(view)
        if first_key is not None or last_key is not None:
            rows = _between(rows, first_key, last_key)
        return (self._read(row) for row in rows)

    def _first_part(self, segment: int) -> int:
        return segment * self.interval

    def _takes(self, time: int) -> bool:
        assert self.observed is not None
        if time <= self.observed - self.retention:
            self._namespace.count("expired")
            return False
        if time <= self.observed - self.grace:
            self._namespace.count("late")
            return False
        return True

    def _live(self, start: int | None, end: int | None) -> tuple[int, int | None] | None:
        self._expire()
        edge = self._edge()
        if edge is None:
            return None
        first = edge + 1 if start is None else max(start, edge + 1)
        return None if end is not None and first > end else (first, end)

    def _read(self, row: Row) -> WindowRow:
        time, at = keys.decode_part(row[0])
        key, _ = keys.decode_part(row[0], at)
        return WindowRow(time, key, self._namespace.codec.from_bytes(row[1]))


def _of_key(view: NamespaceView, wanted: bytes, reverse: bool) -> Iterator[Row]:
    """The rows of one key.

    Between two of them lie the other keys of the same window starts: where those are many, the
    next row is looked up instead of walked to.
    """
    low, high = view.low, view.high
    jumped = True
    while jumped:
        jumped = False
        passed = 0
        for row in view.scan(low, high, reverse=reverse):
            time, at = keys.decode_part(row[0])
            if row[0].startswith(wanted, at):
                passed = 0
                yield row
                continue
            passed += 1
            if passed > _NEAR:
                before = row[0][at:] < wanted
                if reverse:
                    high = keys.encode_part(time - before) + wanted + keys.AFTER
                else:
                    low = keys.encode_part(time + (not before)) + wanted
                jumped = True
                break


def _between(rows: Iterator[Row], first_key: Any, last_key: Any) -> Iterator[Row]:
    first = b"" if first_key is None else keys.encode_part(first_key)
    last = keys.AFTER if last_key is None else keys.encode_part(last_key)
    for row in rows:
        _, at = keys.decode_part(row[0])
        _, end = keys.decode_part(row[0], at)
        if first <= row[0][at:end] <= last:
            yield row
