"""What all window operators do in the same way: the steps of the design around some windows.

Source: the Samza SQL window operator design, "Basic Algorithm for Windowed Aggregators". The
numbers of its steps stand in the code.
"""

from __future__ import annotations

import logging
import time as machine
from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

import polars as pl

from muntin import stores
from muntin.model.closeable import Closeable
from muntin.model.errors import MuntinError, OptionError, SelectorDisabledError
from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec
from muntin.standalone.fields import micros_of
from muntin.standalone.pending_outputs import PendingOutputs, Receiver
from muntin.standalone.stored_windows import StepRows, StoredWindows
from muntin.stores import KeyValue

_log = logging.getLogger("muntin.standalone")

# How many single messages wait at most: enough that a step costs little for each.
MOST_WAITING = 32_768


TimeLike = int | datetime | str | None
"""A position: microseconds, a datetime or ISO 8601 text; on the rows axis a number."""


class Flushed(NamedTuple):
    """What a flush cleared.

    Attributes:
        results: The window outputs.
        rejected: The messages that no window took.
    """

    results: pl.DataFrame
    rejected: pl.DataFrame


def machine_clock() -> int:
    """The wall clock of this machine, microseconds since the epoch."""
    return machine.time_ns() // 1_000


def key_frame(option: str, names: Sequence[str], key: Any) -> pl.DataFrame | None:
    """A key as a row with the names of its fields; ``None`` where no key is asked for."""
    if key is None:
        return None
    values = key if isinstance(key, tuple) else (key,)
    if len(values) != len(names):
        wanted = ", ".join(names)
        raise OptionError(option, key, f"isn't ({wanted})", f"give a tuple: {wanted}")
    return pl.DataFrame([dict(zip(names, values, strict=True))])


class StandaloneOperator(Closeable):
    """The common part of all operators: the clock, outputs, flushing, recovery.

    A kind of operator takes messages, and puts its windows around the store. The arguments are
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
        self._downstream = downstream
        self._errors = errors
        self._name = name
        # Messages are taken while nothing waits for what is downstream.
        self._accepting = True
        self._results, self._rejects = PendingOutputs(), PendingOutputs()
        self._failed = False
        self._flushed: dict[Any, Any] = {}

    @abstractmethod
    def _drain(self) -> None:
        """Hand the waiting messages to the windows (steps 2 to 6)."""

    @abstractmethod
    def _after_step(self) -> None:
        """Note that steps were taken."""

    def timeout(self, now: TimeLike = None) -> bool:
        """Set the clock: policies on the wall clock emit, and what was refused is sent again.

        Call it regularly: nothing else moves the operator's clock.

        Args:
            now: The wall clock; the operator's ``clock`` where it isn't given. It never goes back.

        Returns:
            Whether nothing waits for what is downstream.

        Raises:
            OptionError: When ``now`` isn't a time.
        """
        self._require_sound()
        wall = self._clock() if now is None else micros_of(now)
        if not isinstance(wall, int):
            hint = "give microseconds since the epoch, a datetime or ISO 8601 text"
            raise OptionError("now", now, "isn't a time", hint)
        if self._has_pending and not self._deliver():  # step 1
            return False
        self._drain()
        self._run(lambda: self._windows.tick(wall))  # steps 2 and 3
        return self._deliver()

    def get_result(self) -> pl.DataFrame:
        """A copy of all window outputs since the last flush.

        Returns:
            A row an output, in the order in which the windows emitted. Of an aggregator: the keys,
            ``window_start``, ``window_end`` (in the type of the messages' times; whole numbers for
            windows in rows), the aggregates, ``emission`` and ``revision``. Of a join: the columns
            of both sides and ``emission``. With a downstream: what wait to be sent.
        """
        self._catch_up()
        return self._results.waiting(self._windows.empty.results)

    @property
    def rejected(self) -> pl.DataFrame:
        """A copy of all messages since the last flush that no window took.

        Their fields, the ``reason``, the ``watermark`` in force, and in ``unread`` the text of
        values that couldn't be read (which are null in their field).
        """
        self._catch_up()
        return self._rejects.waiting(self._windows.empty.rejected)

    def flush(self) -> Flushed:
        """Clear the outputs, and make the state durable with the offsets, in one atomic write.

        After a crash, the operator opens as the last flush left it, and ``offsets`` says from
        where to replay.

        Returns:
            What was cleared. (To lose no outputs in a crash, read them by ``get_result`` and
            flush when they are safe.)

        Raises:
            SelectorDisabledError: When outputs wait for what is downstream.
        """
        self._require_sound()
        self._drain()
        if not self._deliver():
            self._refuse()
        nothing = self._windows.empty
        cleared = Flushed(
            self._results.waiting(nothing.results), self._rejects.waiting(nothing.rejected)
        )
        self._clear()
        self._checkpoint()
        return cleared

    @property
    def offsets(self) -> dict[Any, int]:
        """From where to replay after a crash: by partition, the offset behind the last flushed."""
        return dict(self._flushed)

    @property
    def watermark(self) -> int | None:
        """The watermark in force, microseconds since the epoch; ``None`` before the first message.

        Windows in rows have none.
        """
        self._catch_up()
        return self._windows.watermark

    @property
    def counts(self) -> dict[str, int]:
        """Messages so far: ``seen``, ``counted``, ``duplicates``, and each reason to reject.

        ``partly_late`` are those of the counted ones that some of their windows no longer took.
        """
        self._catch_up()
        return self._windows.counts

    def close(self) -> None:
        """Close the store without flushing; a second call does nothing."""
        self.store.close()

    def _check_accepting(self) -> None:
        if self._failed or self.store.closed:
            self._require_sound()
        if not self._accepting:
            self._refuse()

    def _refuse(self) -> NoReturn:
        refusal = f"{self._name} takes no messages while its outputs wait for what is downstream"
        _log.warning(refusal)
        hint = "call timeout() until it returns True, then hand the message over again"
        raise SelectorDisabledError(f"{refusal}; {hint}")

    def _require_sound(self) -> None:
        if self._failed:
            raise MuntinError(
                "the operator failed within a step; open it on its store again, "
                "and replay from its offsets"
            )
        if self.store.closed:
            raise MuntinError("the operator is closed; open it on its store again")

    def _catch_up(self) -> None:
        """Take what waits, where it can be taken."""
        self._require_sound()
        self._drain()

    def _mark(self, time: TimeLike) -> int:
        """Where a watermark is to be."""
        if self.spec.axis == "rows":
            hint = "leave it out: offsets say when a window is full"
            raise OptionError("time", time, "moves nothing: rows have no watermark", hint)
        found = self._position("time", time)
        if found is None:
            raise OptionError("time", time, "isn't a time", "give microseconds or a datetime")
        return found

    def _check_open(self, time: TimeLike) -> None:
        if not self._windows.is_open:
            hint = "hand a message over first, or give schema={…}"
            raise OptionError("time", time, "moves nothing: no columns are known yet", hint)

    def _position(self, option: str, given: Any) -> int | None:
        """A position on the axis."""
        if given is None or (self.spec.axis == "rows" and isinstance(given, int)):
            return given
        found = micros_of(given) if self.spec.axis == "time" else None
        if isinstance(found, int):
            return found
        hint = "give a time, or on the rows axis an offset"
        raise OptionError(option, given, f"is no position on the {self.spec.axis} axis", hint)

    def _run(self, take: Callable[[], list[StepRows]]) -> None:
        """Run steps of the windows, and keep their outputs until they are sent."""
        self._failed = True  # a step that breaks off leaves its windows half changed
        made = take()
        self._failed = False
        for step in made:
            self._add(step)
        self._after_step()

    def _add(self, step: StepRows) -> None:
        self._results.add(step.results)
        self._rejects.add(step.rejected)

    def _clear(self) -> None:
        self._results.clear()
        self._rejects.clear()

    def _deliver(self) -> bool:
        """Send what waits, then flush (step 7); no message is taken while something waits.

        Without a downstream there is no flush: the results it clears would be delivered to no one.
        """
        if not self._sends:
            return True
        self._accepting = False  # also when a receiver raises
        if self._errors is not None and not self._rejects.send(self._errors):
            return False
        if self._downstream is not None and not self._results.send(self._downstream):
            return False
        self._accepting = True
        if self._windows.is_open and self._downstream is not None:
            self._checkpoint()
        return True

    @property
    def _sends(self) -> bool:
        """Whether anything is sent by the operator itself."""
        return self._downstream is not None or self._errors is not None

    @property
    def _has_pending(self) -> bool:
        """Whether something waits for a receiver."""
        rejects = self._errors is not None and len(self._rejects) > 0
        return rejects or (self._downstream is not None and len(self._results) > 0)

    def _checkpoint(self) -> None:
        self.store.flush()
        self._flushed = self._windows.reached
