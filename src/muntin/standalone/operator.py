"""The common part of all window operators: the steps of the design around some windows.

Source: the Samza SQL window operator design, "Basic Algorithm for Windowed Aggregators". Comments
give the numbers of its steps.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

import polars as pl

from muntin import stores
from muntin.engine.joins.reading import AxisRange
from muntin.engine.named_rows import iter_named_rows
from muntin.engine.operator import REJECTED, RESULTS
from muntin.model.closeable import Closeable
from muntin.model.errors import MuntinError, OptionError, RefusedError, SelectorDisabledError
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec
from muntin.standalone.fields import parse_micros, parse_time_option
from muntin.standalone.stored_windows import StepRows, StoredWindows
from muntin.stores import KeyValue

_log = logging.getLogger("muntin.standalone")

Receiver = Callable[[dict[str, Any]], Any]
"""Receives one output as a dictionary; refuses it by returning ``False`` or RefusedError."""
TimeLike = int | datetime | str | None
"""A position: microseconds, a datetime or ISO 8601 text; on the rows axis a number."""


class Flushed(NamedTuple):
    """The outputs that a flush cleared.

    Attributes:
        results: The window outputs.
        rejected: The rejected messages.
    """

    results: pl.DataFrame
    rejected: pl.DataFrame


def to_key_frame(option: str, names: Sequence[str], key: Any) -> pl.DataFrame | None:
    """Return a key as a row with the names of its fields; ``None`` for no key."""
    if key is None:
        return None
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(names):
        wanted = ", ".join(names)
        raise OptionError(option, key, f"isn't ({wanted})", f"give a tuple: {wanted}")
    return pl.DataFrame([dict(zip(names, values, strict=True))])


class PendingOutputs:
    """Rows in the order in which they were added, until they are sent or cleared.

    Guarantees:
        - Rows are sent in order, each once: a refused row is the first to be sent next time.

    Example:
        >>> outputs = PendingOutputs()
        >>> outputs.add(pl.DataFrame({"n": [1, 2, 3]}))
        >>> outputs.send(lambda row: row["n"] < 2), len(outputs)
        (False, 2)
    """

    def __init__(self) -> None:
        self._frames: deque[pl.DataFrame] = deque()
        self._sent = 0  # rows of the first frame

    def __len__(self) -> int:
        return sum(map(len, self._frames)) - self._sent

    def add(self, frame: pl.DataFrame) -> None:
        """Append rows to the queue."""
        if len(frame):
            self._frames.append(frame)

    def to_frame(self, nothing: pl.DataFrame) -> pl.DataFrame:
        """Return all queued rows, or ``nothing`` if there are none."""
        if not self._frames:
            return nothing
        return pl.concat(self._frames)[self._sent :]

    def clear(self) -> None:
        """Discard all rows."""
        self._frames.clear()
        self._sent = 0

    def send(self, receiver: Receiver) -> bool:
        """Send row by row, continuing after the last sent one, until one is refused.

        Raises:
            Exception: Any exception of the receiver except a refusal; that row stays queued.
        """
        while self._frames:
            for row in iter_named_rows(self._frames[0][self._sent :]):
                if not _is_accepted(receiver, row):
                    return False
                self._sent += 1
            self._frames.popleft()
            self._sent = 0
        return True


def _is_accepted(receiver: Receiver, row: dict[str, Any]) -> bool:
    try:
        return receiver(row) is not False
    except RefusedError:
        return False


class StandaloneOperator(Closeable):
    """The common part of all operators: the clock, outputs, flushing, recovery.

    A subclass processes messages, and opens its windows on the store. The arguments are
    those of ``WindowedAggregator``.
    """

    spec: WindowSpec | JoinSpec
    _windows: StoredWindows

    def __init__(
        self,
        store: KeyValue | None,
        name: str,
        downstream: Receiver | None,
        errors: Receiver | None,
        clock: Callable[[], int],
    ) -> None:
        self.store = stores.memory() if store is None else store
        self._clock = clock
        self._opened_at = clock()
        self._downstream = downstream
        receivers = {REJECTED: errors, RESULTS: downstream}
        self._receivers = {kind: one for kind, one in receivers.items() if one is not None}
        self._name = name
        # Messages are accepted while no output waits for the downstream.
        self._accepting = True
        self._outputs = {kind: PendingOutputs() for kind in (RESULTS, REJECTED)}
        self._failed = False
        self._flushed: dict[Any, Any] = {}

    @abstractmethod
    def _drain(self) -> None:
        """Pass the buffered messages to the windows (steps 2 to 6)."""

    @abstractmethod
    def _note_step(self) -> None:
        """Update derived state after steps."""

    def timeout(self, now: TimeLike = None) -> bool:
        """Set the clock: triggers on the wall clock emit, and refused outputs are sent again.

        Call it regularly, because nothing else advances the operator's clock. Before the first call
        the clock stands at the time at which the operator was created, if that is earlier.

        Args:
            now: The wall clock; by default that of the operator's ``clock``. It never goes back.

        Returns:
            Whether no output waits for the downstream.

        Raises:
            OptionError: When ``now`` isn't a time.
        """
        self._require_usable()
        wall = parse_time_option("now", now)
        if wall is None:
            wall = self._clock()
        if self._has_pending and not self._deliver():  # step 1
            return False
        self._drain()
        if self._windows.clock.wall is None and self._opened_at < wall:
            self._run_steps(lambda: self._windows.start_clock(self._opened_at))
        self._run_steps(lambda: self._windows.tick(wall))  # steps 2 and 3
        return self._deliver()

    def get_result(self) -> pl.DataFrame:
        """Return a copy of all window outputs since the last flush.

        Returns:
            A row per output, in the order in which the windows emitted. For an aggregator: the
            keys, ``window_start``, ``window_end`` (in the type of the messages' times; integers for
            windows of rows), the aggregates, ``emission`` and ``revision``. For a join: the columns
            of both sides and ``emission``. With a downstream: the outputs that wait to be sent.
        """
        self._catch_up()
        return self._to_frame(RESULTS)

    @property
    def rejected(self) -> pl.DataFrame:
        """A copy of all messages that were rejected since the last flush.

        The columns are the messages' fields, the ``reason``, the ``watermark`` in force, and in
        ``unread`` the text of values that couldn't be read (which are null in their field).
        """
        self._catch_up()
        return self._to_frame(REJECTED)

    def flush(self) -> Flushed:
        """Clear the outputs, and make the state durable with the offsets, in one atomic write.

        After a crash, the operator opens with the state of the last flush, and ``offsets`` tells
        from where to replay.

        Returns:
            The cleared outputs. (To lose no outputs in a crash, read them by ``get_result``, store
            them, and then flush.)

        Raises:
            SelectorDisabledError: When outputs wait for the downstream.
        """
        self._require_usable()
        self._drain()
        if not self._deliver():
            self._refuse()
        cleared = Flushed(self._to_frame(RESULTS), self._to_frame(REJECTED))
        for outputs in self._outputs.values():
            outputs.clear()
        self._checkpoint()
        return cleared

    @property
    def offsets(self) -> dict[Any, int]:
        """The offsets to replay from after a crash: after the last flushed one, by partition."""
        return dict(self._flushed)

    @property
    def watermark(self) -> int | None:
        """The watermark in force, microseconds since the epoch; ``None`` before the first message.

        Windows of rows have no watermark.
        """
        self._catch_up()
        return self._windows.watermark

    @property
    def counts(self) -> dict[str, int]:
        """Number of messages: ``seen``, ``counted``, ``duplicates``, and by reason of rejection.

        ``partly_late`` are the counted messages that some of their windows no longer accepted.
        """
        self._catch_up()
        return self._windows.counts

    def close(self) -> None:
        """Close the store without flushing; a second call does nothing."""
        self.store.close()

    def _check_accepting(self) -> None:
        if self._failed or self.store.closed:
            self._require_usable()
        if not self._accepting:
            self._refuse()

    def _refuse(self) -> NoReturn:
        refusal = f"{self._name} takes no messages while its outputs wait for what is downstream"
        _log.warning(refusal)
        hint = "call timeout() until it returns True, then hand the message over again"
        raise SelectorDisabledError(f"{refusal}; {hint}")

    def _require_usable(self) -> None:
        if self._failed:
            raise MuntinError(
                "the operator failed within a step; open it on its store again, "
                "and replay from its offsets"
            )
        if self.store.closed:
            raise MuntinError("the operator is closed; open it on its store again")

    def _catch_up(self) -> None:
        """Process buffered messages, if possible."""
        self._require_usable()
        self._drain()

    def _parse_watermark(self, time: TimeLike) -> int:
        if self.spec.axis == "rows":
            hint = "leave it out: offsets say when a window is full"
            raise OptionError("time", time, "moves nothing: rows have no watermark", hint)
        position = self._parse_axis_position("time", time)
        if position is None:
            raise OptionError("time", time, "isn't a time", "give microseconds or a datetime")
        return position

    def _advance(self, time: TimeLike, move: Callable[[int], list[StepRows]]) -> bool:
        """Advance a watermark by ``move``; return whether no output waits for the downstream."""
        self._check_accepting()
        watermark = self._parse_watermark(time)
        self._drain()
        if not self._windows.is_open:
            hint = "hand a message over first, or give schema={…}"
            raise OptionError("time", time, "moves nothing: no columns are known yet", hint)
        self._run_steps(lambda: move(watermark))
        return self._deliver()

    def _parse_axis_position(self, option: str, value: Any) -> int | None:
        if value is None or (self.spec.axis == "rows" and isinstance(value, int)):
            return value
        micros = parse_micros(value) if self.spec.axis == "time" else None
        if isinstance(micros, int):
            return micros
        hint = "give a time, or on the rows axis an offset"
        raise OptionError(option, value, f"is no position on the {self.spec.axis} axis", hint)

    def _parse_range(self, start: TimeLike, end: TimeLike) -> AxisRange:
        low, high = (self._parse_axis_position(*one) for one in (("start", start), ("end", end)))
        return AxisRange(low, high)

    def _run_steps(self, take: Callable[[], list[StepRows]]) -> None:
        """Run steps of the windows, and queue their outputs."""
        self._failed = True  # a step that fails leaves its windows partly changed
        step_outputs = take()
        self._failed = False
        for rows in step_outputs:
            for kind, outputs in self._outputs.items():
                outputs.add(rows[kind])
        self._note_step()

    def _to_frame(self, kind: str) -> pl.DataFrame:
        """Return the outputs of a kind that wait, or an empty frame with its columns."""
        nothing = self._windows.empty.get(kind, pl.DataFrame())
        return self._outputs[kind].to_frame(nothing)

    def _deliver(self) -> bool:
        """Send queued outputs, then flush (step 7); no message is accepted while outputs wait.

        Without a downstream there is no flush, because nobody would receive the cleared results.
        """
        if not self._has_receiver:
            return True
        self._accepting = False  # also when a receiver raises
        for kind, receiver in self._receivers.items():
            if not self._outputs[kind].send(receiver):
                return False
        self._accepting = True
        if self._windows.is_open and self._downstream is not None:
            self._checkpoint()
        return True

    @property
    def _has_receiver(self) -> bool:
        """True if the operator sends outputs itself."""
        return bool(self._receivers)

    @property
    def _has_pending(self) -> bool:
        """True if outputs wait for a receiver."""
        return any(len(self._outputs[kind]) for kind in self._receivers)

    def _checkpoint(self) -> None:
        self.store.flush()
        self._flushed = self._windows.next_offsets
