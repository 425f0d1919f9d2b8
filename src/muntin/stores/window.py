"""The window store: one value per key and window start, kept for a retention.

Sources: the in-memory window store's proposal (put, fetch, separate retention and grace, expired
segments dropped before each action, a fetch is a snapshot); the Samza SQL window operator design
(window metadata, which holds the aggregate if no message store is needed).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from muntin.model.axis import Duration, format_duration
from muntin.model.errors import OptionError
from muntin.stores import keys
from muntin.stores.kv import KeyValue, Row
from muntin.stores.namespace import Namespace, NamespaceView, encode_required_key, parse_axis_length
from muntin.stores.segments import SegmentedStore, segment_interval

# How many rows of other keys a scan skips before it looks up the next key instead.
_MAX_SKIPPED = 1


class WindowRow(NamedTuple):
    """One row: a window's start (microseconds, or an offset), its key and its value."""

    time: int
    key: Any
    value: Any


class WindowStore(SegmentedStore):
    """Values by window start and key.

    Guarantees:
        - Rows are in order of time, then key, then arrival; ``reverse=True`` is exactly the
          opposite.
        - Only rows with ``time > observed - retention`` are read or accepted, where ``observed`` is
          the greatest time so far. Older rows disappear for readers at once, and from the store by
          whole segments before the next action.
        - A fetch returns a snapshot as of its call, however late it is read.
        - A write that isn't accepted is counted (``expired``, ``late``), never an error.

    Args:
        kv: The rows, which other stores may share.
        retention: How long after its start a row is kept.
        name: The store's name in ``kv``.
        grace: How far a written time may be behind ``observed``; by default the retention.
            Operators enforce grace by themselves, so set it only without an operator.
        segments: The number of segments that the retention is divided into.
        minimum: The least length of a segment.
        retain_duplicates: Whether a put to an existing row adds another. Then nothing can be
            deleted.
        codec: ``"json"``, ``"raw"`` (bytes) or ``"meta"`` (``WindowMeta``).

    Lengths are durations, or plain numbers in the axis' own unit (microseconds; offsets).
    Keys are of the types in ``muntin.stores.keys``, including tuples.

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
        retention_length = parse_axis_length("retention", retention)
        self.grace = retention_length if grace is None else parse_axis_length("grace", grace)
        if self.grace > retention_length:
            hint = f"give at most the retention, {format_duration(retention_length)}"
            raise OptionError("grace", grace, "is longer than rows are kept", hint)
        self.retain_duplicates = retain_duplicates
        interval = segment_interval(retention_length, segments, minimum)
        identity = {"kind": "window", "retain_duplicates": str(retain_duplicates)}
        super().__init__(Namespace(kv, name, identity, codec), retention_length, interval)

    @property
    def late(self) -> int:
        """Number of writes that were rejected after the grace, though within retention."""
        return self._namespace.counts.get("late", 0)

    def put(self, key: Any, time: int, value: Any) -> bool:
        """Store a value for a window; ``None`` deletes it, except with ``retain_duplicates``.

        Returns:
            Whether the write was accepted.

        Raises:
            OptionError: When the key is null, or the codec can't write the value.
        """
        key_part = encode_required_key("key", key)
        encoded = None if value is None else self._namespace.codec.to_bytes(value)
        self.advance(time)
        if not self._accepts(time):
            return False
        row = keys.encode_part(time) + key_part
        if encoded is None:
            self._namespace.delete(row)  # matches no duplicate, because these are numbered
            return True
        if self.retain_duplicates:
            row += keys.encode_part(self._namespace.counts.get("arrivals", 0))
            self._namespace.count("arrivals")
        self._namespace.put(row, encoded)
        return True

    def delete(self, key: Any, time: int) -> bool:
        """Delete a window's value, like putting ``None``."""
        return self.put(key, time, None)

    def get(self, key: Any, time: int) -> Any:
        """Return the value of one window (the first of duplicates), or ``None``.

        Raises:
            OptionError: When the key is null.
        """
        if self.retain_duplicates:
            row = next(self.fetch(key, time, time), None)
            return None if row is None else row.value
        key_part = encode_required_key("key", key)
        if self._clip_range(time, time) is None:
            return None
        value = self._namespace.get(keys.encode_part(time) + key_part)
        return None if value is None else self._namespace.codec.from_bytes(value)

    def fetch(
        self, key: Any, start: int | None = None, end: int | None = None, *, reverse: bool = False
    ) -> Iterator[WindowRow]:
        """Return the rows of one key from ``start`` to ``end``, both included; ``None`` is open.

        The cost is a look-up or a few rows per window start in the range, not the rows of each key.

        Raises:
            OptionError: When the key is null.
        """
        key_part = encode_required_key("key", key)
        bounds = self._clip_range(start, end)
        if bounds is None:
            return iter(())
        low = keys.encode_part(bounds[0]) + key_part
        high = keys.AFTER if end is None else keys.encode_part(end) + key_part + keys.AFTER
        rows = _scan_key(self._namespace.rows(low, high), key_part, reverse)
        return (self._read_row(row) for row in rows)

    def fetch_all(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        first_key: Any = None,
        last_key: Any = None,
        reverse: bool = False,
    ) -> Iterator[WindowRow]:
        """Return all rows within bounds of time and key, all included.

        A bound of ``None`` is open; a range whose bounds are reversed is empty.
        """
        bounds = self._clip_range(start, end)
        if bounds is None:
            return iter(())
        high = keys.AFTER if end is None else keys.encode_part(end) + keys.AFTER
        view = self._namespace.rows(keys.encode_part(bounds[0]), high)
        rows = reversed(view) if reverse else iter(view)
        if first_key is not None or last_key is not None:
            rows = _filter_by_key(rows, first_key, last_key)
        return (self._read_row(row) for row in rows)

    def _first_part(self, segment: int) -> int:
        return segment * self.interval

    def _accepts(self, time: int) -> bool:
        assert self.observed is not None
        if time <= self.observed - self.retention:
            self._namespace.count("expired")
            return False
        if time <= self.observed - self.grace:
            self._namespace.count("late")
            return False
        return True

    def _clip_range(self, start: int | None, end: int | None) -> tuple[int, int | None] | None:
        self._expire()
        edge = self._find_edge()
        if edge is None:
            return None
        first = edge + 1 if start is None else max(start, edge + 1)
        return None if end is not None and first > end else (first, end)

    def _read_row(self, row: Row) -> WindowRow:
        time, at = keys.decode_part(row[0])
        key, _ = keys.decode_part(row[0], at)
        return WindowRow(time, key, self._namespace.codec.from_bytes(row[1]))


def _scan_key(view: NamespaceView, wanted: bytes, reverse: bool) -> Iterator[Row]:
    """Iterate over the rows of one key.

    Rows of other keys with the same window starts are between them; if there are many, the
    next row is looked up instead of scanned for.
    """
    low, high = view.low, view.high
    jumped = True
    while jumped:
        jumped = False
        skipped = 0
        for row in view.scan(low, high, reverse=reverse):
            time, at = keys.decode_part(row[0])
            if row[0].startswith(wanted, at):
                skipped = 0
                yield row
                continue
            skipped += 1
            if skipped > _MAX_SKIPPED:
                is_before = row[0][at:] < wanted
                if reverse:
                    high = keys.encode_part(time - is_before) + wanted + keys.AFTER
                else:
                    low = keys.encode_part(time + (not is_before)) + wanted
                jumped = True
                break


def _filter_by_key(rows: Iterator[Row], first_key: Any, last_key: Any) -> Iterator[Row]:
    first = b"" if first_key is None else keys.encode_part(first_key)
    last = keys.AFTER if last_key is None else keys.encode_part(last_key)
    for row in rows:
        _, at = keys.decode_part(row[0])
        _, end = keys.decode_part(row[0], at)
        if first <= row[0][at:end] <= last:
            yield row
