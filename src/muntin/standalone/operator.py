"""What all window operators do in the same way: the steps of the design around some windows.

Source: the Samza SQL window operator design, "Basic Algorithm for Windowed Aggregators". The
numbers of its steps stand in the code.
"""

from __future__ import annotations

import base64
import time as machine
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

import polars as pl

from muntin import stores
from muntin.engine import columns
from muntin.engine.codec import decode, encode
from muntin.engine.runs import Blobs
from muntin.model.errors import MuntinError, OptionError
from muntin.model.spec import WindowSpec
from muntin.standalone.aggregation import Aggregation, Spoken
from muntin.standalone.buffer import Buffer
from muntin.standalone.cuts import ALWAYS, NEVER
from muntin.standalone.fields import micros_of
from muntin.standalone.intake import Intake
from muntin.standalone.outputs import Outputs, Receiver
from muntin.standalone.selector import Selector
from muntin.stores import KeyValue, KeyValueBlobs

# How many single messages wait at most: enough that a step costs little for each.
MOST_WAITING = 32_768


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


class WindowOperator:
    """The common part of all operators: taking messages, the clock, outputs, flushing, recovery.

    A kind of operator says which queries it takes, and which windows it puts around the store. The
    arguments are those of ``WindowedAggregator``.
    """

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
        self.spec = spec
        self.store = stores.memory() if store is None else store
        self._clock = clock
        self._downstream = downstream
        self._errors = errors
        self._selector = Selector(name)
        self._results, self._rejects = Outputs(), Outputs()
        self._buffer = Buffer(spec)
        self._intake = Intake(spec, clock, schema)
        self._columns = KeyValueBlobs(self.store, name=f"{name}.columns")
        kept = KeyValueBlobs(self.store, name=f"{name}.messages") if keep_messages else None
        self._windows = self._made(KeyValueBlobs(self.store, name=name), kept)
        self._open = self._failed = False
        # Single messages outside of these times are due at once; without a downstream, none are.
        self._calm = (ALWAYS, NEVER) if downstream is None else (NEVER, ALWAYS)
        self._ahead = NEVER if spec.max_ahead is None else ALWAYS
        stored = self._columns.load()
        if stored is not None:
            self._intake.adopt(decode(base64.b64decode(stored)).schema)
        if self._intake.columns is not None:
            self._open_windows()
        self._flushed = self._windows.reached if self._open else {}

    def _check(self, spec: WindowSpec) -> None:
        """Refuse queries of another kind."""

    def _made(self, blobs: Blobs, messages: Blobs | None) -> Aggregation:
        """The windows over their place in the store."""
        return Aggregation(self.spec, blobs, messages)

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
        this returns.

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
        self._admit()  # step 1
        buffer = self._buffer
        if time.__class__ is not int or buffer.sample is None:
            time = buffer.micros(time)
        buffer.add(key, value, time, partition, offset)
        if time.__class__ is int and time > self._ahead and self._is_future(time):
            buffer.future.append(len(buffer) - 1)
        if len(buffer) >= MOST_WAITING or self._is_due(time):
            self._drain()
            self._pass_on()

    def add_messages(self, batch: Any, *, final: bool = False) -> None:
        """Take many messages at once.

        They are judged by the watermark that was in force before the batch, as on Spark; windows
        speak after it.

        Args:
            batch: A Polars, pandas or Arrow table, or a list of dictionaries, with the fields of
                the query.
            final: Whether the input ends with this batch, so that every window speaks.

        Raises:
            SelectorDisabledError: When outputs wait for what is downstream.
            OptionError: When the batch isn't a table, or its columns don't fit.
        """
        self._admit()
        self._drain()
        messages = self._intake.batch(batch)
        if messages is None:
            if not final or not self._open:
                return
            messages = pl.DataFrame(schema=self._intake.schema)
        self._open_windows()
        self._run(lambda: self._windows.take(messages, final=final))
        self._pass_on()

    def timeout(self, now: int | datetime | str | None = None) -> bool:
        """Tell the time: policies on the wall clock speak, and what was refused is sent again.

        Call it regularly: nothing else moves the operator's clock.

        Args:
            now: The wall clock; the operator's ``clock`` where it isn't given. It never goes back.

        Returns:
            Whether nothing waits for what is downstream.

        Raises:
            OptionError: When ``now`` isn't a time.
        """
        self._require_sound()
        told = self._clock() if now is None else micros_of(now)
        if not isinstance(told, int):
            cure = "give microseconds since the epoch, a datetime or ISO 8601 text"
            raise OptionError("now", now, "isn't a time", cure)
        if self._waits and not self._pass_on():  # step 1
            return False
        self._drain()
        if self._open:
            self._run(lambda: self._windows.tick(told))  # steps 2 and 3
        else:
            self._windows.wall = told
        return self._pass_on()

    def get_result(self) -> pl.DataFrame:
        """A copy of all window outputs since the last flush.

        Returns:
            The keys, ``window_start``, ``window_end`` (in the type of the messages' times; whole
            numbers for windows in rows), the aggregates, ``emission`` and ``revision``, in the
            order in which the windows spoke. With a downstream: what wait to be sent.
        """
        self._drain_gladly()
        return self._results.waiting(self._nothing().results)

    @property
    def rejected(self) -> pl.DataFrame:
        """A copy of all messages since the last flush that no window took.

        Their fields, the ``reason``, the ``watermark`` in force, and in ``unread`` the text of
        values that couldn't be read (which are null in their field).
        """
        self._drain_gladly()
        return self._rejects.waiting(self._nothing().rejected)

    def flush(self) -> Flushed:
        """Clear the outputs, and make the state durable with the offsets, in one atomic write.

        After a crash, the operator opens as the last flush left it, and ``offsets`` says from
        where to replay.

        Returns:
            What was cleared. (Whoever must not lose outputs in a crash gets them by
            ``get_result`` and flushes when they are safe.)

        Raises:
            SelectorDisabledError: When outputs wait for what is downstream.
        """
        self._require_sound()
        self._drain()
        if not self._pass_on():
            self._selector.check()
        nothing = self._nothing()
        cleared = Flushed(
            self._results.waiting(nothing.results), self._rejects.waiting(nothing.rejected)
        )
        self._results.clear()
        self._rejects.clear()
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
        self._drain_gladly()
        return self._windows.watermark if self._open else None

    @property
    def counts(self) -> dict[str, int]:
        """Messages so far: ``seen``, ``counted``, ``duplicates``, and each reason to reject."""
        self._drain_gladly()
        return self._windows.counts if self._open else {}

    def close(self) -> None:
        """Let go of the store, without flushing; closing twice is closing once."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _standing(self, start: Any, end: Any, who: Mapping[str, Any] | None = None) -> pl.DataFrame:
        """What the windows hold that reach into a stretch of the axis."""
        self._drain_gladly()
        if not self._open:
            return self._nothing().results.drop(columns.EMISSION, columns.REVISION)
        wanted = None if who is None else pl.DataFrame([dict(who)])
        return self._windows.standing(self._position(start), self._position(end), wanted)

    def _messages(self, start: Any, end: Any) -> pl.DataFrame:
        """The kept messages from a position to another."""
        self._drain_gladly()
        if not self._open:
            return pl.DataFrame()
        return self._windows.messages(self._position(start), self._position(end))

    def _position(self, given: Any) -> int | None:
        if given is None or (self.spec.axis == "rows" and isinstance(given, int)):
            return given
        found = micros_of(given) if self.spec.axis == "time" else None
        if isinstance(found, int):
            return found
        cure = "give a time, or on the rows axis an offset"
        raise OptionError("start, end", given, f"is no position on the {self.spec.axis} axis", cure)

    def _admit(self) -> None:
        if self._failed or self.store.closed:
            self._require_sound()
        if not self._selector.enabled:
            self._selector.check()

    def _require_sound(self) -> None:
        if self._failed:
            raise MuntinError(
                "the operator failed within a step; open it on its store again, "
                "and replay from its offsets"
            )
        if self.store.closed:
            raise MuntinError("the operator is closed; open it on its store again")

    def _is_future(self, time: int) -> bool:
        assert self.spec.max_ahead is not None
        # The clock goes forward: what was not too far ahead of an older reading isn't now.
        self._ahead = self._clock() + self.spec.max_ahead
        return time > self._ahead

    def _is_due(self, time: Any) -> bool:
        first, last = self._calm
        if time.__class__ is not int:
            return first == NEVER
        return bool(time < first or time >= last)

    def _open_windows(self) -> None:
        if self._open:
            return
        try:
            self._windows.open(self._intake)
        except MuntinError:
            self._intake.forget()
            raise
        assert self._intake.columns is not None
        empty = pl.DataFrame(schema=self._intake.columns)
        self._columns.save(base64.b64encode(encode(empty)).decode())
        self._buffer.settle(self._intake.columns)
        self._open = True

    def _drain_gladly(self) -> None:
        """Take what waits, where it can be taken."""
        self._require_sound()
        self._drain()

    def _drain(self) -> None:
        """Hand the waiting messages to the windows (steps 2 to 6)."""
        if not len(self._buffer):
            return
        messages = self._intake.rows(
            self._buffer.cells(), len(self._buffer), self._buffer.sample, self._buffer.future
        )
        self._open_windows()
        self._buffer.clear()
        self._run(lambda: self._windows.take_each(messages))

    def _run(self, take: Callable[[], list[Spoken]]) -> None:
        """Run steps of the windows and let what they say wait."""
        self._failed = True  # a step that breaks off leaves its windows half changed
        spoken = take()
        self._failed = False
        for said in spoken:
            self._results.add(said.results)
            self._rejects.add(said.rejected)
        if self._downstream is not None:
            self._calm = self._windows.due()

    def _pass_on(self) -> bool:
        """Send what waits, then flush (step 7); the selector is disabled while something waits."""
        if self._downstream is None:
            return True
        self._selector.enabled = False  # also when a receiver raises
        if self._errors is not None and not self._rejects.send(self._errors):
            return False
        if not self._results.send(self._downstream):
            return False
        self._selector.enabled = True
        if self._open:
            self._checkpoint()
        return True

    @property
    def _waits(self) -> bool:
        """Whether something waits for what is downstream."""
        rejects = self._errors is not None and len(self._rejects) > 0
        return self._downstream is not None and (rejects or len(self._results) > 0)

    def _checkpoint(self) -> None:
        self.store.flush()
        self._flushed = self._windows.reached if self._open else {}

    def _nothing(self) -> Spoken:
        if self._open:
            return self._windows.silence
        named = [*self.spec.keys, columns.WINDOW_START, columns.WINDOW_END, *self.spec.aggregates]
        results = dict.fromkeys([*named, columns.EMISSION, columns.REVISION], pl.Null())
        rejected = dict.fromkeys([columns.REASON, columns.WATERMARK, "unread"], pl.Null())
        return Spoken(pl.DataFrame(schema=results), pl.DataFrame(schema=rejected))
