"""Joining operators for this process: over windows or distances, and over sessions."""

from __future__ import annotations

from typing import Any

import polars as pl

from muntin.model.bounds import SessionBound, SideName
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.standalone.joining_operator import JoiningOperator
from muntin.standalone.operator import TimeLike, to_key_frame


class JoinWindow(JoiningOperator):
    """A windowed join of two streams of messages, in this process.

    Each pair is emitted once, as soon as its second message arrives. The unmatched messages of an
    outer join are emitted when no partner can arrive any more. Without a ``downstream`` the
    operator keeps its outputs until they are read and flushed. With one it sends them in order,
    each once. While the downstream refuses an output, the others wait, no message is accepted, and
    ``timeout`` continues with the refused one. After all are sent, the operator flushes.

    The columns of both sides must be known before anything is emitted: until each side has had a
    message, messages wait in this process, unless ``schema`` names the columns.

    Guarantees:
        - A message whose offset was taken changes nothing, also after a restart.
        - After a crash the operator opens with the state of its last flush. Replaying from
          ``offsets`` gives the same outputs.
        - Single messages act as batches of one; only the order of rows may differ.

    Source: the Samza SQL window operator design, "Join Window Operator".

    Args:
        spec: The join, from ``muntin.standalone.join(…)``.
        store: The store of the state: ``muntin.stores.rocks(folder)``; in memory by default.
            The operator closes it.
        name: The operator's name in the store; operators that share a store are flushed together.
        suffix: Appended to the right side's names that the left has too.
        downstream: Receives each output as a dictionary, and refuses it by returning ``False`` or
            raising ``RefusedError``. Another operator's ``add_message`` refuses that way.
        errors: Receives each rejected message as soon as it is rejected, with or without a
            downstream; by default they are kept in ``rejected``.
        schema: Types of the fields by side and name, Python's or Polars'. By default they
            are those of the first messages; the store remembers them.
        clock: The wall clock in microseconds since the epoch, for ``max_ahead`` and ``timeout()``.
        window_outputs: Whether to keep the outputs of each side's own windows, for
            ``get_result(side)``, until the next flush.

    Raises:
        OptionError: When an option can't work.
        SpecChangedError: When the store was written by another join.

    Example:
        >>> from muntin.standalone import join, windowed
        >>> orders, shipments = windowed(time="at"), windowed(time="at")
        >>> near = join(orders, shipments, on="id", within=(0, "1 minute"), how="left")
        >>> op = JoinWindow(near)
        >>> for number, at in [(1, 10), (2, 20), (3, 90)]:
        ...     op.add_message("left", key=number, time=at * 1_000_000)
        >>> op.add_message("right", key=1, value={"cost": 5}, time=30_000_000)
        >>> op.add_message("right", key=3, value={"cost": 7}, time=95_000_000)
        >>> sorted(op.get_result().select("id", "cost", "emission").rows())
        [(1, 5, 'early'), (2, None, 'full'), (3, 7, 'early')]
        >>> op.get_messages("left", join_keys=3)["at"].to_list()
        [90000000]
    """

    def _check(self, spec: JoinSpec) -> None:
        if isinstance(spec.bound, SessionBound):
            hint = "give it to SessionJoinWindow"
            raise OptionError("spec", str(spec.bound), "is a join of sessions", hint)

    def get_windows(
        self, side: SideName, start: TimeLike = None, end: TimeLike = None, *, join_keys: Any = None
    ) -> pl.DataFrame:
        """Return the windows of a side that overlap a range of the axis.

        Args:
            side: ``"left"`` or ``"right"``.
            start: The start of the range: a time, or on the rows axis an offset; ``None`` for open.
            end: The end of the range, included.
            join_keys: Count only the messages with these equal fields; a tuple if there are
                several.

        Returns:
            ``window_start``, ``window_end`` and ``messages``, by start, for the windows with
            messages which may still find partners. If the side has offsets, the partition comes
            first, and ``start_offset`` and ``last_offset`` of the window's messages come before
            ``messages``.

        Raises:
            OptionError: When the side has no windows, or a bound isn't a position.
        """
        self._get_stream(side)
        self._catch_up()
        between = self._parse_range(start, end)
        only = to_key_frame("join_keys", self.spec.side(side).keys, join_keys)
        return self._windows.get_windows(side, between, only)

    def get_messages(
        self,
        side: SideName,
        start_time: TimeLike = None,
        start_offset: int | None = None,
        end_time: TimeLike = None,
        end_offset: int | None = None,
        *,
        join_keys: Any = None,
    ) -> pl.DataFrame:
        """Return the messages of a side between two positions, both included, by position.

        Args:
            side: ``"left"`` or ``"right"``.
            start_time: The time of the first; the rows axis has none.
            start_offset: The offset of the first within that time, or on the rows axis.
            end_time: The time of the last.
            end_offset: The offset of the last.
            join_keys: Only messages with these equal fields; a tuple if there are several.

        Returns:
            The fields of the messages that may still find partners.

        Raises:
            OptionError: When a bound isn't a position.
        """
        return self._read_messages(
            side, (start_time, start_offset), (end_time, end_offset), join_keys
        )


class SessionJoinWindow(JoiningOperator):
    """A join by sessions, in this process; ``JoinWindow`` documents the rest.

    The messages of both sides with the same key form the sessions, and partners share one. The
    key that is compared is the session's key.

    Source: the Samza SQL window operator design, "Session Join Window Operator"; KIP-94.

    Example:
        >>> from muntin.standalone import join, windowed
        >>> visits = windowed(time="at").session("30 s")
        >>> op = SessionJoinWindow(join(visits, visits, on="user"))
        >>> op.add_message("left", key="ann", value={"page": "home"}, time=0)
        >>> op.add_message("right", key="ann", value={"sale": 5}, time=20_000_000)
        >>> op.add_message("right", key="ann", value={"sale": 7}, time=80_000_000)
        >>> op.get_result().select("user", "page", "sale").rows()
        [('ann', 'home', 5)]
        >>> op.get_windows(session_key="ann").select("window_start", "left", "right").rows()
        [(0, 1, 1), (80000000, 0, 1)]
    """

    def _check(self, spec: JoinSpec) -> None:
        if not isinstance(spec.bound, SessionBound):
            hint = "give it to JoinWindow, or give both sides .session(gap)"
            raise OptionError("spec", str(spec.bound), "isn't a join of sessions", hint)

    def get_windows(
        self, start: TimeLike = None, end: TimeLike = None, *, session_key: Any = None
    ) -> pl.DataFrame:
        """Return the sessions that overlap a range of time and may still grow.

        Args:
            start: The start of the range; ``None`` for open.
            end: The end of the range, included.
            session_key: Only the sessions of this key; a tuple if it has several fields.

        Returns:
            The left side's key fields, ``window_start``, ``window_end`` and the number of messages
            of the ``left`` and the ``right`` side; by start, then key.
        """
        self._catch_up()
        between = self._parse_range(start, end)
        only = to_key_frame("join_keys", self.spec.left.keys, session_key)
        return self._windows.get_sessions(between, only)

    def get_messages(
        self,
        side: SideName,
        start_time: TimeLike = None,
        start_offset: int | None = None,
        end_time: TimeLike = None,
        end_offset: int | None = None,
        *,
        session_key: Any = None,
        join_keys: Any = None,
    ) -> pl.DataFrame:
        """Return the messages of a side whose sessions may grow; see ``JoinWindow.get_messages``.

        Args:
            side: ``"left"`` or ``"right"``.
            start_time: The time of the first.
            start_offset: The offset of the first within that time.
            end_time: The time of the last.
            end_offset: The offset of the last.
            session_key: Only messages of this session key; a tuple if it has several fields.
            join_keys: Only messages with these equal fields, which are the session's key.

        Raises:
            OptionError: When a bound isn't a position.
        """
        return self._read_messages(
            side, (start_time, start_offset), (end_time, end_offset), session_key, join_keys
        )
