"""Operators that aggregate one stream of messages, over fixed windows or over sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl

from muntin.engine.clocks import read_machine_clock
from muntin.model import aggregates
from muntin.model.axis import MAX_POSITION, MIN_POSITION
from muntin.model.errors import MuntinError, OptionError
from muntin.model.policies import ages_of
from muntin.model.sessions import LONGEST_GAP
from muntin.model.spec import WindowSpec
from muntin.standalone.fields import MAX_TIME, MIN_TIME
from muntin.standalone.input_fields import InputFields
from muntin.standalone.input_stream import MAX_BUFFERED, InputStream
from muntin.standalone.operator import Receiver, StandaloneOperator, TimeLike, to_key_frame
from muntin.standalone.sentence import refuse_zones
from muntin.standalone.stored_aggregation import StoredAggregation
from muntin.stores import KeyValue, KeyValueBlobs

START_OFFSET, LAST_OFFSET = "start_offset", "last_offset"


class RejectionFilter:
    """Predicts which single messages of a query may be rejected, so that they aren't buffered.

    Messages that are certain to be accepted are buffered, which makes them cheap. The decision
    uses only the message's values and position; in doubt the message isn't buffered.
    """

    def __init__(self, spec: WindowSpec, stream: InputStream) -> None:
        self._spec = spec
        self._stream = stream
        # Times near the ends of a datetime's range may have windows outside of it.
        reach = stream.fields.reach
        self._first, self._last = MIN_TIME + reach, MAX_TIME - reach
        self._watermark: int | None = None

    def set_watermark(self, watermark: int | None) -> None:
        """Record the watermark after the buffer was processed."""
        self._watermark = watermark

    def may_reject(self, time: int | str | None) -> bool:
        """Return whether the last message may be rejected."""
        spec, stream = self._spec, self._stream
        if stream.excluded or not stream.is_readable():
            return True
        if spec.axis == "rows":
            return spec.offset is not None
        if stream.fields.gap is not None:
            gap = stream.get_last(stream.fields.gap)
            if gap.__class__ is not int or not 0 < gap <= LONGEST_GAP:
                return True
        if time.__class__ is not int or not self._first <= time <= self._last:
            return True
        return self._is_late(time)

    def _is_late(self, time: int) -> bool:
        """Return whether all windows may refuse a time, by the watermark before it."""
        spec, watermark = self._spec, self._watermark
        if watermark is None or time - spec.lateness > watermark:
            self._watermark = time - spec.lateness
        if watermark is None or time >= watermark:
            return False
        windows = spec.uniform_windows
        return windows.moves or time < windows.last_end(watermark - spec.firing.grace)


def _add_offsets(spec: WindowSpec) -> WindowSpec:
    """Return the query with the aggregates ``start_offset`` and ``last_offset`` added.

    Source: the Samza SQL window operator design, "Window Metadata".

    Raises:
        OptionError: When messages have no offsets, or the names are taken.
    """
    if spec.offset is None:
        hint = 'give windowed(…, offset=("partition", "offset"))'
        raise OptionError("offsets", True, "asks for what messages don't have", hint)
    for name in (START_OFFSET, LAST_OFFSET):
        if name in spec.aggregates or name in spec.keys:
            raise OptionError("offsets", True, f"adds {name!r}, which is there", "rename it")
    number = spec.offset[1]
    added = {START_OFFSET: aggregates.min(number), LAST_OFFSET: aggregates.max(number)}
    return replace(spec, aggregates={**spec.aggregates, **added})


class AggregatingOperator(StandaloneOperator):
    """The behaviour that both aggregators share; for arguments see ``WindowedAggregator``."""

    spec: WindowSpec
    _windows: StoredAggregation

    def __init__(
        self,
        spec: WindowSpec,
        store: KeyValue | None = None,
        *,
        name: str = "windows",
        downstream: Receiver | None = None,
        errors: Receiver | None = None,
        schema: Mapping[str, Any] | None = None,
        clock: Callable[[], int] = read_machine_clock,
        keep_messages: bool = False,
        offsets: bool = False,
    ) -> None:
        self._check(spec)
        spec = _add_offsets(spec) if offsets else spec
        super().__init__(store, name, downstream, errors, clock)
        self.spec = spec
        # Single messages outside of these times are processed at once, given a downstream.
        self._quiet_range = (
            (MIN_POSITION, MAX_POSITION) if downstream is None else (MAX_POSITION, MIN_POSITION)
        )
        with self.store.undo_on_failure():
            self._stream = InputStream(InputFields.of_query(spec), clock, schema, self.store, name)
            self._screen = None if errors is None else RejectionFilter(spec, self._stream)
            message_blobs = (
                KeyValueBlobs(self.store, name=f"{name}.messages") if keep_messages else None
            )
            self._windows = StoredAggregation(
                spec, KeyValueBlobs(self.store, name=name), message_blobs
            )
            if ages_of(spec.firing.early, spec.firing.late):
                # The age of a message counts from the clock in force when it is added.
                self._windows.clock.advance(clock())
            if self._stream.has_types:
                self._open_windows()
                self._flushed = self._windows.next_offsets

    def _check(self, spec: WindowSpec) -> None:
        """Refuse queries of another kind."""

    def add_message(
        self,
        *,
        key: Any = None,
        value: Mapping[str, Any] | None = None,
        time: int | datetime | str | None = None,
        offset: int | None = None,
        partition: int | str = 0,
    ) -> None:
        """Process one message, as if it were a batch of its own.

        Its outputs are in the next ``get_result``. With a downstream they are sent before this
        returns, and with ``errors`` a rejected message is, too.

        Args:
            key: The value of the key; a tuple if the key has several fields.
            value: The other fields of the message.
            time: The event time: microseconds since the epoch, a datetime, or ISO 8601 text.
            offset: The offset in the partition, if the query uses offsets.
            partition: The partition.

        Raises:
            SelectorDisabledError: When outputs wait for the downstream.
            OptionError: When the message doesn't fit the query. (A value of a wrong type isn't an
                error: its message is rejected as malformed.)
        """
        self._check_accepting()  # step 1
        micros = self._stream.add(key, value, time, partition, offset)
        if (
            len(self._stream) >= MAX_BUFFERED
            or self._is_due(micros)
            # A rejected message is sent to ``errors`` at once.
            or (self._screen is not None and self._screen.may_reject(micros))
        ):
            self._drain()
            self._deliver()

    def add_messages(self, batch: Any, *, final: bool = False) -> None:
        """Process many messages at once.

        They are judged by the watermark before the batch, as on Spark; windows emit after it.

        Args:
            batch: A Polars, pandas or Arrow table, or a list of dictionaries, with the fields of
                the query.
            final: Whether the input ends with this batch, so that every window emits.

        Raises:
            SelectorDisabledError: When outputs wait for the downstream.
            OptionError: When the batch isn't a table, or its columns don't fit.
        """
        self._check_accepting()
        self._drain()
        messages = self._stream.builder.build_from_table(batch)
        if messages is None:
            if not final or not (self._windows.is_open or len(self._stream)):
                return
            self._process_buffered()
            messages = self._stream.empty_frame()
        self._open_windows()
        self._drain()
        self._run_steps(lambda: self._windows.process_batch(messages, final=final))
        self._deliver()

    def advance(self, time: TimeLike) -> bool:
        """Advance the watermark by hand, so that the windows of an idle input emit.

        Messages behind it are late, and it never goes back. ``windowed(idle=…)`` advances it by the
        clock.

        Args:
            time: The time up to which the input is complete.

        Returns:
            Whether no output waits for the downstream.

        Raises:
            OptionError: When it isn't a time, when windows are on the rows axis, which has no
                watermark, or when the columns aren't known yet from messages or ``schema=``.
            SelectorDisabledError: When outputs wait for the downstream.
        """
        return self._advance(time, self._windows.advance)

    def _snapshot(self, start: TimeLike, end: TimeLike, only: pl.DataFrame | None) -> pl.DataFrame:
        """Return the contents of the windows that overlap a range of the axis."""
        self._catch_up()
        return self._windows.get_windows(*self._parse_range(start, end), only)

    def _messages(self, start: Any, end: Any) -> pl.DataFrame:
        """Return the kept messages between two positions, both included."""
        self._catch_up()
        return self._windows.get_messages(*self._parse_range(start, end))

    def _is_due(self, time: Any) -> bool:
        first, last = self._quiet_range
        if time.__class__ is not int:
            return first == MAX_POSITION
        return bool(time < first or time >= last)

    def _open_windows(self) -> None:
        if self._windows.is_open:
            return
        try:
            self._windows.open(self._stream.builder)
        except MuntinError:
            self._stream.builder.reset()
            raise
        self._stream.fix_types()
        if self._screen is not None:
            self._screen.set_watermark(self._windows.watermark)

    def _drain(self) -> None:
        # Until each field has had a value, messages wait, and aren't flushed.
        if len(self._stream) and self._stream.shows_types:
            self._process_buffered()

    def _process_buffered(self) -> None:
        if not len(self._stream):
            return
        messages = self._stream.to_frame()
        self._open_windows()
        self._stream.clear()
        self._run_steps(lambda: self._windows.process_each(messages))

    def _note_step(self) -> None:
        if self._downstream is not None:
            self._quiet_range = self._windows.find_quiet_range()
        if self._screen is not None:
            self._screen.set_watermark(self._windows.watermark)


class WindowedAggregator(AggregatingOperator):
    """Tumbling, hopping, cumulating, calendar or sliding windows over messages, in this process.

    Without a ``downstream`` the operator keeps its outputs until they are read and flushed. With
    one it sends them in order, each once. While the downstream refuses an output, the others wait,
    no message is accepted, and ``timeout`` continues with the refused one. After all are sent, the
    operator flushes.

    Guarantees:
        - A message whose offset was taken changes nothing, also after a restart.
        - After a crash the operator opens with the state of its last flush. Replaying from
          ``offsets`` gives the same outputs. Single messages emit the same regardless of when
          outputs are read.
        - Single messages act as batches of one; only the order between different windows may
          differ.

    Source: the Samza SQL window operator design, "Windowed Aggregator".

    Args:
        spec: The query, from ``muntin.standalone.windowed(…)….agg(…)``.
        store: The store of the state: ``muntin.stores.rocks(folder)``; in memory by default.
            The operator closes it.
        name: The operator's name in the store; operators that share a store are flushed together.
        downstream: Receives each output as a dictionary, and refuses it by returning ``False`` or
            raising ``RefusedError``. Another operator's ``add_message`` refuses that way.
        errors: Receives each rejected message as soon as it is rejected, with or without a
            downstream; by default they are kept in ``rejected``.
        schema: Types of the fields by name, Python's or Polars'. By default they are those
            of the first messages; the store remembers them.
        clock: The wall clock in microseconds since the epoch, for ``max_ahead`` and ``timeout()``.
        keep_messages: Whether to keep the messages of the windows within retention, for
            ``get_messages``.
        offsets: Whether outputs include ``start_offset`` and ``last_offset``, the least and the
            greatest offset of a window's messages. Offsets of several partitions don't compare, so
            make the partition a key.

    Raises:
        OptionError: When an option can't work.
        SpecChangedError: When the store was written by another query.

    Example:
        >>> import muntin as mt
        >>> spec = mt.standalone.windowed(key="shop", time="at", lateness="5 s").tumbling("10 s")
        >>> op = WindowedAggregator(spec.agg(n=mt.count(), best=mt.max("price")))
        >>> for at, price in [(1, 5), (9, 7), (12, 1), (16, 2)]:
        ...     op.add_message(key="a", value={"price": price}, time=at * 1_000_000)
        >>> op.get_result().select("window_start", "n", "best", "emission").rows()
        [(0, 2, 7, 'full')]
        >>> _ = op.flush()
        >>> len(op.get_result())
        0
    """

    def _check(self, spec: WindowSpec) -> None:
        if not spec.windows.is_numbered:
            hint = "give it to SessionAggregator"
            raise OptionError("spec", str(spec.windows), "is a query over sessions", hint)
        refuse_zones(spec)

    def get_windows(
        self, start: TimeLike = None, end: TimeLike = None, key: Any = None
    ) -> pl.DataFrame:
        """Return the windows that overlap a range of the axis, with their present contents.

        Args:
            start: The start of the range: a time, or on the rows axis a number; ``None`` for open.
            end: The end of the range, included.
            key: Only the windows of this key; a tuple if the key has several fields, or its only
                field is NULL: ``(None,)``.

        Returns:
            The keys, ``window_start``, ``window_end`` and the aggregates of the windows within
            retention, by start, then key.
        """
        return self._snapshot(start, end, to_key_frame("key", self.spec.state_keys, key))

    def get_messages(self, start: TimeLike = None, end: TimeLike = None) -> pl.DataFrame:
        """Return the kept messages between two positions, both included, by position.

        Raises:
            OptionError: When the operator keeps no messages (``keep_messages``).
        """
        return self._messages(start, end)


class SessionAggregator(AggregatingOperator):
    """Sessions over messages, in this process; ``WindowedAggregator`` documents the rest.

    A session is emitted as ``[first message, last message + gap]``, and retracted (``retract``)
    when it grows after it has emitted.

    Source: the Samza SQL window operator design, "Session Aggregator"; KIP-94.

    Example:
        >>> import muntin as mt
        >>> visits = mt.standalone.windowed(key="user", time="at").session("30 s")
        >>> op = SessionAggregator(visits.agg(clicks=mt.count()))
        >>> for user, at in [("ann", 1), ("ann", 21), ("bob", 30), ("ann", 90)]:
        ...     op.add_message(key=user, time=at * 1_000_000)
        >>> op.get_result().select("user", "clicks").rows()
        [('ann', 2), ('bob', 1)]
        >>> op.get_windows(session_key="ann")["clicks"].to_list()
        [1]
    """

    def _check(self, spec: WindowSpec) -> None:
        if spec.windows.is_numbered:
            hint = "give it to WindowedAggregator, or write .session(gap)"
            raise OptionError("spec", str(spec.windows), "isn't a query over sessions", hint)
        for option, value in spec.windows.conditions.items():
            hint = "leave it out, or write muntin.windowed(frame), whose messages have columns"
            raise OptionError(option, str(value), "isn't for standalone operators", hint)

    def get_windows(
        self, start: TimeLike = None, end: TimeLike = None, *, session_key: Any = None
    ) -> pl.DataFrame:
        """Return the sessions that overlap a range of the axis, with their present contents.

        Args:
            start: The start of the range; ``None`` for open.
            end: The end of the range, included.
            session_key: Only the sessions of this key, in the form of ``key`` of
                ``WindowedAggregator``.

        Returns:
            The keys, ``window_start``, ``window_end`` and the aggregates of the sessions within
            retention, by start, then key.
        """
        return self._snapshot(start, end, to_key_frame("key", self.spec.state_keys, session_key))

    def get_messages(
        self, start: TimeLike = None, end: TimeLike = None, *, session_key: Any = None
    ) -> pl.DataFrame:
        """Return the kept messages between two positions, both included, by position.

        Args:
            start: The start of the range; ``None`` for open.
            end: The end of the range, included.
            session_key: Only the messages of this key.

        Raises:
            OptionError: When the operator keeps no messages (``keep_messages``).
        """
        messages = self._messages(start, end)
        only = to_key_frame("key", self.spec.state_keys, session_key)
        if only is None:
            return messages
        equal = (pl.col(one.name).eq_missing(one[0]) for one in only)
        return messages.filter(*equal)
