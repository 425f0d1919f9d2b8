"""Operators that aggregate one stream of messages: taking them in, alone or many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.model.errors import MuntinError
from muntin.model.spec import WindowSpec
from muntin.standalone.aggregation import Aggregation, StepRows
from muntin.standalone.buffer import ALWAYS, NEVER
from muntin.standalone.inlet import Inlet
from muntin.standalone.inputs import Input
from muntin.standalone.operator import MOST_WAITING, WindowOperator, machine_clock
from muntin.standalone.outputs import Receiver
from muntin.standalone.screen import Screen
from muntin.state.blobs import Blobs
from muntin.stores import KeyValue, KeyValueBlobs


class AggregatingOperator(WindowOperator):
    """What both aggregators do. The arguments are those of ``WindowedAggregator``."""

    spec: WindowSpec
    _windows: Aggregation

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
        self._calm = (ALWAYS, NEVER) if downstream is None else (NEVER, ALWAYS)
        with self.store.opening():
            self._inlet = Inlet(Input.of_query(spec), clock, schema, self.store, name)
            self._buffer = self._inlet.buffer
            self._screen = None if errors is None else Screen(spec, self._buffer)
            kept = KeyValueBlobs(self.store, name=f"{name}.messages") if keep_messages else None
            self._windows = self._made(KeyValueBlobs(self.store, name=name), kept)
            if self._inlet.known:
                self._open_windows()
                self._flushed = self._windows.reached

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
        self._admit()  # step 1
        micros = self._buffer.add(key, value, time, partition, offset)
        if len(self._buffer) >= MOST_WAITING or self._is_due(micros) or self._is_doubted(micros):
            self._drain()
            self._pass_on()

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
        self._admit()
        self._drain()
        messages = self._inlet.intake.batch(batch)
        if messages is None:
            if not final or not self._open:
                return
            messages = self._inlet.none()
        self._open_windows()
        self._run(lambda: self._windows.take(messages, final=final))
        self._pass_on()

    def _standing(
        self, start: Any, end: Any, only: Mapping[str, Any] | None = None
    ) -> pl.DataFrame:
        """What the windows hold that reach into a stretch of the axis."""
        self._drain_gladly()
        if not self._open:
            return self._nothing().results.drop(columns.EMISSION, columns.REVISION)
        wanted = None if only is None else pl.DataFrame([dict(only)])
        return self._windows.snapshot(*self._edges(start, end), wanted)

    def _messages(self, start: Any, end: Any) -> pl.DataFrame:
        """The kept messages from a position to another."""
        self._drain_gladly()
        if not self._open:
            return pl.DataFrame()
        return self._windows.messages(*self._edges(start, end))

    def _edges(self, start: Any, end: Any) -> tuple[int | None, int | None]:
        return self._position("start, end", start), self._position("start, end", end)

    def _is_due(self, time: Any) -> bool:
        first, last = self._calm
        if time.__class__ is not int:
            return first == NEVER
        return bool(time < first or time >= last)

    def _is_doubted(self, time: Any) -> bool:
        """Whether a message may be rejected, and somebody wants it at once."""
        return self._screen is not None and self._screen.doubts(time)

    def _open_windows(self) -> None:
        if self._open:
            return
        try:
            self._windows.open(self._inlet.intake)
        except MuntinError:
            self._inlet.intake.forget()
            raise
        self._inlet.settle()
        self._open = True
        if self._screen is not None:
            self._screen.drained(self._windows.watermark)

    def _drain(self) -> None:
        if not len(self._buffer):
            return
        messages = self._inlet.waiting()
        self._open_windows()
        self._buffer.clear()
        self._run(lambda: self._windows.take_each(messages))

    def _ran(self) -> None:
        if self._downstream is not None:
            self._calm = self._windows.due()
        if self._screen is not None:
            self._screen.drained(self._windows.watermark)

    def _nothing(self) -> StepRows:
        if self._open:
            return self._windows.empty
        named = [*self.spec.keys, columns.WINDOW_START, columns.WINDOW_END, *self.spec.aggregates]
        results = dict.fromkeys([*named, columns.EMISSION, columns.REVISION], pl.Null())
        rejected = dict.fromkeys([columns.REASON, columns.WATERMARK, "unread"], pl.Null())
        return StepRows(pl.DataFrame(schema=results), pl.DataFrame(schema=rejected))
