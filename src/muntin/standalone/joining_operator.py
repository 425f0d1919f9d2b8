"""Operators that join two streams of messages: taking them in from either side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.reading import AxisRange
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec, SideName
from muntin.standalone.input_fields import InputFields
from muntin.standalone.input_stream import InputStream
from muntin.standalone.operator import (
    MOST_WAITING,
    StandaloneOperator,
    TimeLike,
    key_frame,
    machine_clock,
)
from muntin.standalone.pending_outputs import Receiver
from muntin.standalone.stored_join import PendingMessages, StoredJoin
from muntin.stores import KeyValue, KeyValueBlobs


class JoiningOperator(StandaloneOperator):
    """What both joins do. The arguments are those of ``JoinWindow``."""

    spec: JoinSpec
    _windows: StoredJoin

    def __init__(
        self,
        spec: JoinSpec,
        store: KeyValue | None = None,
        *,
        name: str = "join",
        suffix: str = "_right",
        downstream: Receiver | None = None,
        errors: Receiver | None = None,
        schema: Mapping[SideName, Mapping[str, Any]] | None = None,
        clock: Callable[[], int] = machine_clock,
    ) -> None:
        self._check(spec)
        super().__init__(store, name, downstream, errors, clock)
        self.spec = spec
        given = schema or {}
        # Single messages wait in their side's stream, and here the number of the side of each.
        self._order = bytearray()
        self._pending: list[PendingMessages] = []
        with self.store.opening():
            self._streams: dict[SideName, InputStream] = {}
            for side in SIDES:
                fields, kept_as = InputFields.of_side(spec, side), f"{name}.{side}"
                stream = InputStream(fields, clock, given.get(side), self.store, kept_as)
                self._streams[side] = stream
            self._windows = StoredJoin(spec, suffix, KeyValueBlobs(self.store, name=name))
            if self._open_windows():
                self._flushed = self._windows.reached

    def _check(self, spec: JoinSpec) -> None:
        """Refuse joins of another kind."""

    def add_message(
        self,
        side: SideName,
        *,
        key: Any = None,
        value: Mapping[str, Any] | None = None,
        time: int | datetime | str | None = None,
        offset: int | None = None,
        partition: int | str = 0,
    ) -> None:
        """Take one message of one side, as if it were a batch of its own.

        What it makes due is there at the next ``get_result``; with a downstream it is sent before
        this returns, and with ``errors`` the message itself, should it be rejected.

        Args:
            side: ``"left"`` or ``"right"``.
            key: The value of the field that is compared; a tuple where there are several.
            value: The other fields of the message.
            time: Its event time: microseconds since the epoch, a datetime, or ISO 8601 text.
            offset: Its offset in its partition, where the side goes by offsets.
            partition: Its partition.

        Raises:
            SelectorDisabledError: When outputs wait for what is downstream.
            OptionError: When the message doesn't fit the side. (A value of a wrong type does: its
                message is rejected as malformed.)
        """
        self._check_accepting()  # step 1
        self._side(side).add(key, value, time, partition, offset)
        self._order.append(SIDES.index(side))
        if self._sends or len(self._order) >= MOST_WAITING:
            self._drain()
            self._deliver()

    def add_messages(self, *, left: Any = None, right: Any = None, final: bool = False) -> None:
        """Take many messages at once, of one side or of both.

        They are judged by the watermark of their side that was in force before, as on Spark.

        Args:
            left: A Polars, pandas or Arrow table, or a list of dictionaries.
            right: The same.
            final: Whether the input of both sides ends with these, so that no message waits on.

        Raises:
            SelectorDisabledError: When outputs wait for what is downstream.
            OptionError: When something isn't a table, or its columns don't fit; or when the input
                ends before a side has shown its columns.
        """
        self._check_accepting()
        self._drain()
        messages: dict[SideName, pl.DataFrame] = {}
        for side, given in zip(SIDES, (left, right), strict=True):
            stream = self._streams[side]
            frame = None if given is None else stream.builder.batch(given)
            if frame is not None:
                stream.settle()
                messages[side] = frame
        silent = next((side for side in SIDES if not self._streams[side].known), None)
        if final and silent is not None:
            hint = f'give schema={{"{silent}": {{…}}}}'
            raise OptionError("schema", silent, "has shown no message, nor its columns", hint)
        if messages or final:
            self._pending.append(PendingMessages(messages, None, final))
        self._drain()
        self._deliver()

    def advance(self, time: TimeLike, side: SideName | None = None) -> bool:
        """Move a side's watermark by hand, so that the other's messages don't wait for it.

        What comes behind it is late, and it never goes back. ``windowed(idle=…)`` moves it by the
        clock.

        Args:
            time: Up to where the input is complete.
            side: ``"left"`` or ``"right"``; both where it isn't given.

        Returns:
            Whether nothing waits for what is downstream.

        Raises:
            OptionError: When it isn't a time, when the join is measured in rows, which have no
                watermark, or when neither messages nor ``schema=`` have said yet which columns
                there are.
            SelectorDisabledError: When outputs wait for what is downstream.
        """
        self._check_accepting()
        mark = self._mark(time)
        if side is not None:
            self._side(side)
        self._drain()
        self._check_open(time)
        self._run(lambda: self._windows.advance(mark, SIDES if side is None else (side,)))
        return self._deliver()

    @property
    def watermarks(self) -> dict[SideName, int | None]:
        """The watermark of each side, microseconds since the epoch; rows have none."""
        self._catch_up()
        return self._windows.watermarks

    def _read_messages(
        self, side: SideName, start: tuple[Any, Any], end: tuple[Any, Any], *only: Any
    ) -> pl.DataFrame:
        """The messages of a side between two positions; each a time and an offset."""
        self._catch_up()
        stream = self._side(side)
        low, high = self._place("start", side, *start), self._place("end", side, *end)
        if not self._windows.is_open:
            return pl.DataFrame()
        names = self.spec.side(side).keys
        keys = (key_frame("join_keys", names, key) for key in only)
        wanted = [frame for frame in keys if frame is not None]
        found = self._windows.messages(side, AxisRange(low, high), wanted)
        if self.spec.axis == "time" and stream.input.offset is not None:
            number = stream.input.offset[1]
            for edge, given, first in ((low, start[1], True), (high, end[1], False)):
                if edge is not None and given is not None:
                    beyond = pl.col(number) < given if first else pl.col(number) > given
                    found = found.filter(~((pl.col(columns.TIME) == edge) & beyond))
        return found.drop(columns.TIME)

    def _place(self, option: str, side: SideName, time: Any, offset: int | None) -> int | None:
        """A position on the axis, out of a time and an offset."""
        if self.spec.axis == "rows":
            if time is not None:
                hint = f"give {option}_offset"
                raise OptionError(f"{option}_time", time, "isn't on the rows axis", hint)
            return offset
        if offset is not None and (time is None or self.spec.side(side).offset is None):
            text = f"belongs to a {option}_time, on a side with offsets"
            raise OptionError(f"{option}_offset", offset, text, f"give {option}_time alone")
        return self._position(f"{option}_time", time)

    def _range(self, start: Any, end: Any) -> AxisRange:
        return AxisRange(self._position("start", start), self._position("end", end))

    def _side(self, side: SideName) -> InputStream:
        if side not in SIDES:
            raise OptionError("side", side, "isn't a side", 'give "left" or "right"')
        return self._streams[side]

    def _open_windows(self) -> bool:
        """Open what was stored, once both sides' columns are known; whether they are."""
        if not self._windows.is_open and all(s.known for s in self._streams.values()):
            self._windows.open({side: stream.builder for side, stream in self._streams.items()})
            for stream in self._streams.values():
                stream.settle()
        return self._windows.is_open

    def _frame_waiting(self) -> None:
        """Make frames of the single messages."""
        if not self._order:
            return
        frames = {}
        for side, stream in self._streams.items():
            if len(stream):
                frames[side] = stream.waiting()
                stream.settle()
        self._pending.append(PendingMessages(frames, bytes(self._order)))
        self._order.clear()
        for stream in self._streams.values():
            stream.clear()

    def _drain(self) -> None:
        self._frame_waiting()
        # Until both sides have shown their columns, messages wait, and aren't flushed.
        if not self._pending or not self._open_windows():
            return
        waiting, self._pending = self._pending, []
        for pending in waiting:
            self._run(lambda pending=pending: self._windows.take(pending))  # type: ignore[misc]

    def _after_step(self) -> None:
        """Whatever comes next may be due."""
