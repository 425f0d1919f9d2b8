"""The two aggregating operators that run by themselves, over fixed windows and over sessions."""

from __future__ import annotations

from typing import Any

import polars as pl

from muntin.model.errors import OptionError
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.standalone.aggregating_operator import AggregatingOperator
from muntin.standalone.operator import TimeLike, key_frame


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
        offsets: Whether windows also say ``start_offset`` and ``last_offset``: the least and the
            greatest offset of their messages. Those of several partitions don't compare; let the
            partition be a key.

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
