"""The two joining operators that run by themselves, over windows or distances and over sessions."""

from __future__ import annotations

from typing import Any

import polars as pl

from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec, Joint, SideName
from muntin.standalone.joining_operator import JoiningOperator
from muntin.standalone.operator import TimeLike, key_frame


class JoinWindow(JoiningOperator):
    """A windowed join of two streams of messages, in this process.

    Each pair is emitted once, as soon as its second message is there; the unmatched of an outer
    join are emitted when no partner can come any more. Without a ``downstream`` the operator keeps
    its outputs until they are asked for and flushed. With one it sends them itself: in order, each
    once; while one is refused, the others wait, no message is taken, and ``timeout`` tries again
    from there. After all were sent, it flushes.

    The columns of both sides must be known before anything is emitted: until each side has shown
    a message, what comes waits in this process, unless ``schema`` names them.

    Guarantees:
        - A message whose offset was taken changes nothing, also after a restart.
        - After a crash the operator opens as its last flush left it; replaying from ``offsets``
          gives what it would have given.
        - Single messages act as batches of one; only the order of rows may differ.

    Source: the Samza SQL window operator design, "Join Window Operator".

    Args:
        spec: The join, made by ``muntin.standalone.join(…)``.
        store: Where state is kept: ``muntin.stores.rocks(folder)``; in memory where not given.
            The operator closes it.
        name: The operator's name in the store; several may share one, and are flushed together.
        suffix: What is put behind the right side's names that the left has too.
        downstream: Takes each output as a dictionary, and refuses it by returning ``False`` or
            raising ``RefusedError``. Another operator's ``add_message`` refuses that way.
        errors: The same for rejected messages, each as soon as it is rejected, with a downstream
            or without; they are kept in ``rejected`` where not given.
        schema: Types of the fields by side and name, Python's or Polars'. Where not given, they
            are those of the first messages; the store remembers them.
        clock: The wall clock in microseconds since the epoch, for ``max_ahead`` and ``timeout()``.
        window_outputs: Whether to keep what each side's windows send on by themselves, for
            ``get_result(side)``; until the next flush.

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
        if isinstance(spec.bound, Joint):
            hint = "give it to SessionJoinWindow"
            raise OptionError("spec", str(spec.bound), "is a join of sessions", hint)

    def get_windows(
        self, side: SideName, start: TimeLike = None, end: TimeLike = None, *, join_keys: Any = None
    ) -> pl.DataFrame:
        """The windows of a side that cover a stretch of the axis.

        Args:
            side: ``"left"`` or ``"right"``.
            start: Where the stretch begins: a time, or on the rows axis an offset; ``None`` is
                open.
            end: Where it ends, included.
            join_keys: Count only the messages with these equal fields; a tuple where there are
                several.

        Returns:
            ``window_start``, ``window_end`` and ``messages``, by start: of the windows that hold
            messages which may still find partners. Where the side has offsets, the partition comes
            first, and ``start_offset`` and ``last_offset`` of what the window holds before
            ``messages``.

        Raises:
            OptionError: When the side has no windows, or no position is meant.
        """
        self._side(side)
        self._catch_up()
        between = self._range(start, end)
        only = key_frame("join_keys", self.spec.side(side).keys, join_keys)
        return self._windows.windows(side, between, only)

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
        """The messages of a side from a position to another, both included, by position.

        Args:
            side: ``"left"`` or ``"right"``.
            start_time: The time of the first; on the rows axis there is none.
            start_offset: The offset of the first within that time, or on the rows axis.
            end_time: The time of the last.
            end_offset: The offset of the last.
            join_keys: Only messages with these equal fields; a tuple where there are several.

        Returns:
            The fields of the messages that may still find partners, and nothing of the others.

        Raises:
            OptionError: When no position is meant.
        """
        return self._read_messages(
            side, (start_time, start_offset), (end_time, end_offset), join_keys
        )


class SessionJoinWindow(JoiningOperator):
    """A join by sessions, in this process; see ``JoinWindow`` for all but what differs.

    The messages of both sides with the same key make up the sessions, and partners share one. The
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
        if not isinstance(spec.bound, Joint):
            hint = "give it to JoinWindow, or give both sides .session(gap)"
            raise OptionError("spec", str(spec.bound), "isn't a join of sessions", hint)

    def get_windows(
        self, start: TimeLike = None, end: TimeLike = None, *, session_key: Any = None
    ) -> pl.DataFrame:
        """The sessions that overlap a stretch of time and may still grow.

        Args:
            start: Where the stretch begins; ``None`` is open.
            end: Where it ends, included.
            session_key: Only the sessions of this key; a tuple where it has several fields.

        Returns:
            The left side's key fields, ``window_start``, ``window_end`` and how many messages of
            the ``left`` and of the ``right`` they hold; by start, then key.
        """
        self._catch_up()
        between = self._range(start, end)
        only = key_frame("join_keys", self.spec.left.keys, session_key)
        return self._windows.sessions(between, only)

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
        """The messages of a side whose sessions may still grow; see ``JoinWindow.get_messages``.

        Args:
            side: ``"left"`` or ``"right"``.
            start_time: The time of the first.
            start_offset: The offset of the first within that time.
            end_time: The time of the last.
            end_offset: The offset of the last.
            session_key: Only messages of this session key; a tuple where it has several fields.
            join_keys: Only messages with these equal fields, which are the session's key.

        Raises:
            OptionError: When no position is meant.
        """
        return self._read_messages(
            side, (start_time, start_offset), (end_time, end_offset), session_key, join_keys
        )
