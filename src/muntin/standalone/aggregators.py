"""The operators that aggregate one stream of messages: over fixed windows, and over sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from muntin.model.errors import MuntinError, OptionError
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.standalone.input_fields import InputFields
from muntin.standalone.input_stream import ALWAYS, NEVER, InputStream
from muntin.standalone.operator import (
    MOST_WAITING,
    StandaloneOperator,
    TimeLike,
    key_frame,
    machine_clock,
)
from muntin.standalone.pending_outputs import Receiver
from muntin.standalone.screen import Screen
from muntin.standalone.stored_aggregation import StoredAggregation
from muntin.stores import KeyValue, KeyValueBlobs


class AggregatingOperator(StandaloneOperator):
    """What both aggregators do. The arguments are those of ``WindowedAggregator``."""

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
        clock: Callable[[], int] = machine_clock,
        keep_messages: bool = False,
    ) -> None:
        self._check(spec)
        super().__init__(store, name, downstream, errors, clock)
        self.spec = spec
        # Single messages outside of these times are due at once; without a downstream, none are.
        self._not_due = (ALWAYS, NEVER) if downstream is None else (NEVER, ALWAYS)
        with self.store.opening():
            self._stream = InputStream(InputFields.of_query(spec), clock, schema, self.store, name)
            self._screen = None if errors is None else Screen(spec, self._stream)
            kept = KeyValueBlobs(self.store, name=f"{name}.messages") if keep_messages else None
            self._windows = StoredAggregation(spec, KeyValueBlobs(self.store, name=name), kept)
            if self._stream.known:
                self._open_windows()
                self._flushed = self._windows.reached

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
        """Take one message, as if it were a batch of its own.

        What it makes due is there at the next ``get_result``; with a downstream it is sent before
        this returns, and with ``errors`` the message itself, should it be rejected.

        Args:
            key: The value of the key; a tuple where the key has several fields.
            value: The other fields of the message.
            time: Its event time: microseconds since the epoch, a datetime, or ISO 8601 text.
            offset: Its offset in its partition, where the query goes by offsets.
            partition: Its partition.

        Raises:
            SelectorDisabledError: When outputs wait for what is downstream.
            OptionError: When the message doesn't fit the query. (A value of a wrong type does: its
                message is rejected as malformed.)
        """
        self._check_accepting()  # step 1
        micros = self._stream.add(key, value, time, partition, offset)
        if (
            len(self._stream) >= MOST_WAITING
            or self._is_due(micros)
            # What may be rejected goes to ``errors`` at once.
            or (self._screen is not None and self._screen.may_reject(micros))
        ):
            self._drain()
            self._deliver()

    def add_messages(self, batch: Any, *, final: bool = False) -> None:
        """Take many messages at once.

        They are judged by the watermark that was in force before the batch, as on Spark; windows
        emit after it.

        Args:
            batch: A Polars, pandas or Arrow table, or a list of dictionaries, with the fields of
                the query.
            final: Whether the input ends with this batch, so that every window emits.

        Raises:
            SelectorDisabledError: When outputs wait for what is downstream.
            OptionError: When the batch isn't a table, or its columns don't fit.
        """
        self._check_accepting()
        self._drain()
        messages = self._stream.builder.batch(batch)
        if messages is None:
            if not final or not self._windows.is_open:
                return
            messages = self._stream.none()
        self._open_windows()
        self._run(lambda: self._windows.take(messages, final=final))
        self._deliver()

    def advance(self, time: TimeLike) -> bool:
        """Move the watermark by hand, so that the windows of an idle input emit.

        What comes behind it is late, and it never goes back. ``windowed(idle=…)`` moves it by the
        clock.

        Args:
            time: Up to where the input is complete.

        Returns:
            Whether nothing waits for what is downstream.

        Raises:
            OptionError: When it isn't a time, when windows lie on rows, which have no watermark,
                or when neither a message nor ``schema=`` has said yet which columns there are.
            SelectorDisabledError: When outputs wait for what is downstream.
        """
        self._check_accepting()
        mark = self._mark(time)
        self._drain()
        self._check_open(time)
        self._run(lambda: self._windows.advance(mark))
        return self._deliver()

    def _snapshot(self, start: TimeLike, end: TimeLike, only: pl.DataFrame | None) -> pl.DataFrame:
        """What the windows hold that overlap a range of the axis."""
        self._catch_up()
        return self._windows.snapshot(*self._edges(start, end), only)

    def _messages(self, start: Any, end: Any) -> pl.DataFrame:
        """The kept messages from a position to another."""
        self._catch_up()
        return self._windows.messages(*self._edges(start, end))

    def _edges(self, start: TimeLike, end: TimeLike) -> tuple[int | None, int | None]:
        return self._position("start, end", start), self._position("start, end", end)

    def _is_due(self, time: Any) -> bool:
        first, last = self._not_due
        if time.__class__ is not int:
            return first == NEVER
        return bool(time < first or time >= last)

    def _open_windows(self) -> None:
        if self._windows.is_open:
            return
        try:
            self._windows.open(self._stream.builder)
        except MuntinError:
            self._stream.builder.forget()
            raise
        self._stream.settle()
        if self._screen is not None:
            self._screen.drained(self._windows.watermark)

    def _drain(self) -> None:
        if not len(self._stream):
            return
        messages = self._stream.waiting()
        self._open_windows()
        self._stream.clear()
        self._run(lambda: self._windows.take_each(messages))

    def _after_step(self) -> None:
        if self._downstream is not None:
            self._not_due = self._windows.due()
        if self._screen is not None:
            self._screen.drained(self._windows.watermark)


class WindowedAggregator(AggregatingOperator):
    """Tumbling, hopping, cumulating, calendar or sliding windows over messages, in this process.

    Without a ``downstream`` the operator keeps its outputs until they are asked for and flushed.
    With one it sends them itself: in order, each once; while one is refused, the others wait, no
    message is taken, and ``timeout`` tries again from there. After all were sent, it flushes.

    Guarantees:
        - A message whose offset was taken changes nothing, also after a restart.
        - After a crash the operator opens as its last flush left it; replaying from ``offsets``
          gives what it would have given. Single messages emit the same whenever one looks.
        - Single messages act as batches of one; only the order between different windows may
          differ.

    Source: the Samza SQL window operator design, "Windowed Aggregator".

    Args:
        spec: The query, made by ``muntin.standalone.windowed(…)….agg(…)``.
        store: Where state is kept: ``muntin.stores.rocks(folder)``; in memory where not given.
            The operator closes it.
        name: The operator's name in the store; several may share one, and are flushed together.
        downstream: Takes each output as a dictionary, and refuses it by returning ``False`` or
            raising ``RefusedError``. Another operator's ``add_message`` refuses that way.
        errors: The same for rejected messages, each as soon as it is rejected, with a downstream
            or without; they are kept in ``rejected`` where not given.
        schema: Types of the fields by name, Python's or Polars'. Where not given, they are those
            of the first messages; the store remembers them.
        clock: The wall clock in microseconds since the epoch, for ``max_ahead`` and ``timeout()``.
        keep_messages: Whether to keep the messages of the windows within retention, for
            ``get_messages``.

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
        if isinstance(spec.windows, Sessions):
            hint = "give it to SessionAggregator"
            raise OptionError("spec", str(spec.windows), "is a query over sessions", hint)

    def get_windows(
        self, start: TimeLike = None, end: TimeLike = None, key: Any = None
    ) -> pl.DataFrame:
        """The windows that cover a stretch of the axis, with what they hold now.

        Args:
            start: Where the stretch begins: a time, or on the rows axis a number; ``None`` is
                open.
            end: Where it ends, included.
            key: Only the windows of this key; a tuple where it has several fields, or its one
                field is NULL: ``(None,)``.

        Returns:
            The keys, ``window_start``, ``window_end`` and the aggregates, by start, then key: of
            the windows within retention.
        """
        return self._snapshot(start, end, key_frame("key", self.spec.keys, key))

    def get_messages(self, start: TimeLike = None, end: TimeLike = None) -> pl.DataFrame:
        """The messages of a stretch of the axis, both ends included, by position.

        Raises:
            OptionError: When the operator keeps none (``keep_messages``).
        """
        return self._messages(start, end)


class SessionAggregator(AggregatingOperator):
    """Sessions over messages, in this process; see ``WindowedAggregator`` for all but what differs.

    A session is emitted as ``[first message, last message + gap]``, and taken back (``retract``)
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
        if not isinstance(spec.windows, Sessions):
            hint = "give it to WindowedAggregator, or write .session(gap)"
            raise OptionError("spec", str(spec.windows), "isn't a query over sessions", hint)

    def get_windows(
        self, start: TimeLike = None, end: TimeLike = None, *, session_key: Any = None
    ) -> pl.DataFrame:
        """The sessions that overlap a stretch of the axis, with what they hold now.

        Args:
            start: Where the stretch begins; ``None`` is open.
            end: Where it ends, included.
            session_key: Only the sessions of this key; as ``key`` of ``WindowedAggregator``.

        Returns:
            The keys, ``window_start``, ``window_end`` and the aggregates, by start, then key: of
            the sessions within retention.
        """
        return self._snapshot(start, end, key_frame("key", self.spec.keys, session_key))

    def get_messages(
        self, start: TimeLike = None, end: TimeLike = None, *, session_key: Any = None
    ) -> pl.DataFrame:
        """The messages of a stretch of the axis, both ends included, by position.

        Args:
            start: Where the stretch begins; ``None`` is open.
            end: Where it ends, included.
            session_key: Only the messages of this key.

        Raises:
            OptionError: When the operator keeps none (``keep_messages``).
        """
        found = self._messages(start, end)
        only = key_frame("key", self.spec.keys, session_key)
        if only is None:
            return found
        equal = (pl.col(one.name).eq_missing(one[0]) for one in only)
        return found.filter(*equal)
