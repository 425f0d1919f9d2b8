"""A table of messages in columns, which limits itself by age and by number.

Source: the VoltDB windowing application, which deletes the oldest rows of a table in chunks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from muntin.engine.columns import TIME
from muntin.model.axis import SECOND, Duration, parse_duration
from muntin.model.errors import OptionError, SpecChangedError
from muntin.model.option_types import check_count
from muntin.sources.frames import frame_source
from muntin.standalone.fields import parse_time_option
from muntin.standalone.operator import TimeLike
from muntin.standalone.segmented_rows import SegmentedRows
from muntin.stores import KeyValue, KeyValueBlobs


class MessageTable:
    """Messages by time, of which the oldest are deleted when they are too old or too many.

    Guarantees:
        - ``retire`` deletes the oldest messages first, by time and then by arrival, and never more
          than it is asked to. Nothing else deletes.
        - A message that is older than a deleted one isn't stored, and is counted (``expired``).
        - Tables that share a store are flushed together. After a crash, a table is as of the last
          flush.

    Args:
        store: The rows of all tables: ``stores.memory()`` or ``stores.rocks(folder)``.
        time: The column with a message's time: a datetime, or whole microseconds.
        retention: How long a message is kept: those with ``time > observed - retention``, where
            ``observed`` is the greatest time so far; ``None`` for forever.
        most_rows: The number of messages to keep; ``None`` for unlimited.
        segment: The length of the stretches of time that messages are stored by; by default that of
            the stored table, or a 600th of the retention and at least a second.
        name: The table's name in the store.

    Raises:
        OptionError: When an option can't work.
        SpecChangedError: When the table was written with another ``time`` or ``segment``.

    Example:
        >>> from muntin import stores
        >>> table = MessageTable(stores.memory(), time="at", most_rows=3)
        >>> table.add_messages(pl.DataFrame({"at": [10, 20, 30, 40, 50], "n": [1, 2, 3, 4, 5]}))
        5
        >>> table.backlog, table.retire(1), table.retire(), table.rows
        (2, 1, 1, 3)
        >>> table.get_messages(start=40)["n"].to_list()
        [4, 5]
    """

    def __init__(
        self,
        store: KeyValue,
        *,
        time: str,
        retention: Duration | None = None,
        most_rows: int | None = None,
        segment: Duration | None = None,
        name: str = "messages",
    ) -> None:
        check_count("most_rows", most_rows, of="row")
        self.time = time
        self.retention = (
            None if retention is None else parse_duration("retention", retention, zero=False)
        )
        self.most_rows = most_rows
        span = None if segment is None else parse_duration("segment", segment, zero=False)
        self._observed: int | None = None
        self._counts = {"added": 0, "deleted": 0, "expired": 0}
        self._store = store
        with store.undo_on_failure():
            blobs = KeyValueBlobs(store, name=f"{name}.runs")
            stored = store.register(name, self._describe_state)
            if stored is None:
                self._rows = SegmentedRows(blobs, span or max(SECOND, (self.retention or 0) // 600))
            else:
                _check_stored(name, stored, {"time": time, "segment": span})
                self._observed, self._counts = stored["observed"], dict(stored["counts"])
                self._rows = SegmentedRows(blobs, stored["segment"])
                self._rows.resume(stored["rows"])
            schema = self._rows.read_schema()
        if schema is not None:
            schema = pl.Schema({name: kind for name, kind in schema.items() if name != TIME})
        self._schema = schema

    def _describe_state(self) -> dict[str, Any]:
        return {
            "time": self.time,
            "segment": self._rows.span,
            "observed": self._observed,
            "counts": dict(self._counts),
            "rows": self._rows.to_json(),
        }

    @property
    def rows(self) -> int:
        """Number of messages in the table."""
        return self._rows.count

    @property
    def counts(self) -> dict[str, int]:
        """Number of messages ever ``added``, ``deleted``, and ``expired`` on arrival."""
        return dict(self._counts)

    @property
    def observed(self) -> int | None:
        """The greatest time so far, microseconds, of a message or of ``advance``."""
        return self._observed

    @property
    def oldest(self) -> int | None:
        """The time of the oldest message, microseconds; ``None`` for an empty table."""
        return self._rows.oldest

    @property
    def backlog(self) -> int:
        """Number of messages beyond the limits, which ``retire`` deletes."""
        surplus = 0 if self.most_rows is None else self.rows - self.most_rows
        if self.retention is not None and self._observed is not None:
            surplus = max(surplus, self._rows.count_through(self._observed - self.retention))
        return max(surplus, 0)

    def add_messages(self, batch: Any) -> int:
        """Add messages.

        Args:
            batch: A Polars, pandas or Arrow table, always with the same columns.

        Returns:
            The number of messages that were stored; the others are older than a deleted one.

        Raises:
            OptionError: When the batch isn't a table, its columns differ from those before, or a
                time is missing. Nothing is stored then.
        """
        frame = self._check_batch(batch)
        rows = frame.with_columns(_parse_times(frame[self.time]).alias(TIME))
        self._schema = frame.schema
        if not len(rows):
            return 0
        self.advance(int(rows[TIME].max()))  # type: ignore[arg-type]
        if self._rows.floor is not None:
            rows = rows.filter(pl.col(TIME) >= self._rows.floor)
        self._counts["added"] += len(rows)
        self._counts["expired"] += len(frame) - len(rows)
        self._rows.add(rows)
        return len(rows)

    def advance(self, time: TimeLike) -> None:
        """Advance the clock by which messages age, for example while none come.

        It never goes back.

        Raises:
            OptionError: When it isn't a time.
        """
        position = parse_time_option("time", time)
        if position is not None and (self._observed is None or position > self._observed):
            self._observed = position

    def retire(self, limit: int | None = None, *, through: TimeLike = None) -> int:
        """Delete the oldest messages that are beyond the limits.

        Args:
            limit: The greatest number to delete; ``None`` for all. Small numbers bound the time of
                a call, so that other work is done between two calls.
            through: The greatest time to delete, instead of the table's own limits.

        Returns:
            The number of deleted messages; 0 when there is nothing left to delete.

        Raises:
            OptionError: When the limit is below 1, or ``through`` isn't a time.
        """
        check_count("limit", limit, of="message")
        last = parse_time_option("through", through)
        surplus = self.backlog if last is None else self._rows.count_through(last)
        count = surplus if limit is None else min(limit, surplus)
        self._rows.delete_oldest(count)
        self._counts["deleted"] += count
        return count

    def count_through(self, time: TimeLike) -> int:
        """Return the number of messages up to a time, included.

        Raises:
            OptionError: When it isn't a time.
        """
        position = parse_time_option("time", time)
        return 0 if position is None else self._rows.count_through(position)

    def get_messages(self, start: TimeLike = None, end: TimeLike = None) -> pl.DataFrame:
        """Return the messages between two times, both included, by time and then by arrival.

        Messages beyond the limits are among them until they are deleted.

        Raises:
            OptionError: When a bound isn't a time.
        """
        low, high = parse_time_option("start", start), parse_time_option("end", end)
        frames = [frame.drop(TIME) for frame in self._rows.read(low, high)]
        return pl.concat(frames, rechunk=False) if frames else pl.DataFrame(schema=self._schema)

    def flush(self, marks: Mapping[str, Any] | None = None) -> None:
        """Make everything in the store durable at once, with marks such as the offset."""
        self._store.flush(marks)

    def _check_batch(self, batch: Any) -> pl.DataFrame:
        source = frame_source(batch)
        if source is None:
            raise OptionError("batch", type(batch), "isn't a table", "give a Polars DataFrame")
        if self.time not in source.schema:
            hint = f"create the table with one of {', '.join(source.schema)}"
            raise OptionError("time", self.time, "isn't a column", hint)
        if self._schema is not None and source.schema != self._schema:
            hint = f"give {', '.join(f'{name} {kind}' for name, kind in self._schema.items())}"
            raise OptionError("batch", list(source.schema), "differs from those before", hint)
        return source.rows.select(source.schema.names())


def _check_stored(name: str, stored: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse what was stored with other options, as far as they are set."""
    for option, now in options.items():
        was = stored.get(option)
        if now is not None and was != now:
            raise SpecChangedError(
                f"the table {name!r} was written with {option}={was!r}, not {now!r}: "
                f"give {option}={was!r}, or another name"
            )


def _parse_times(times: pl.Series) -> pl.Series:
    """Convert times to microseconds.

    Raises:
        OptionError: When they have another type, or one is missing.
    """
    missing = times.null_count()
    if missing:
        problem = f"is missing in {missing:,} messages"
        raise OptionError("time", times.name, problem, "leave these messages out")
    if times.dtype.is_integer():
        return times.cast(pl.Int64)
    if isinstance(times.dtype, pl.Datetime):
        return times.dt.epoch("us")
    hint = "give datetimes or whole microseconds"
    raise OptionError("time", times.name, f"has type {times.dtype}", hint)
