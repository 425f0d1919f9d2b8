"""The common part of operators that join two streams: processing messages of either side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.clocks import read_machine_clock
from muntin.engine.joins.reading import AxisRange
from muntin.model.bounds import SideName
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec
from muntin.standalone.input_fields import InputFields
from muntin.standalone.input_stream import MAX_BUFFERED, InputStream
from muntin.standalone.operator import (
    PendingOutputs,
    Receiver,
    StandaloneOperator,
    TimeLike,
    to_key_frame,
)
from muntin.standalone.stored_join import PendingMessages, StoredJoin
from muntin.stores import KeyValue, KeyValueBlobs


class JoiningOperator(StandaloneOperator):
    """The behaviour that both joins share; the arguments are those of ``JoinWindow``."""

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
        clock: Callable[[], int] = read_machine_clock,
        window_outputs: bool = False,
    ) -> None:
        self._check(spec)
        if window_outputs and downstream is not None:
            hint = "leave one of them out: a downstream is sent the pairs"
            raise OptionError("window_outputs", True, "is read by get_result", hint)
        super().__init__(store, name, downstream, errors, clock)
        self.spec = spec
        schemas = schema or {}
        # Single messages wait in their side's stream; this holds the side number of each.
        self._order = bytearray()
        self._pending: list[PendingMessages] = []
        with self.store.undo_on_failure():
            self._streams: dict[SideName, InputStream] = {}
            for side in SIDES:
                fields, blob_name = InputFields.of_side(spec, side), f"{name}.{side}"
                stream = InputStream(fields, clock, schemas.get(side), self.store, blob_name)
                self._streams[side] = stream
            outputs = SIDES if window_outputs else ()
            self._outputs |= {side: PendingOutputs() for side in outputs}
            blobs = KeyValueBlobs(self.store, name=name)
            self._windows = StoredJoin(spec, suffix, blobs, outputs)
            if self._open_windows():
                self._flushed = self._windows.next_offsets

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
        """Process one message of one side, as if it were a batch of its own.

        Its outputs are in the next ``get_result``. With a downstream they are sent before this
        returns, and with ``errors`` a rejected message is, too.

        Args:
            side: ``"left"`` or ``"right"``.
            key: The value of the field that is compared; a tuple if there are several.
            value: The other fields of the message.
            time: The event time: microseconds since the epoch, a datetime, or ISO 8601 text.
            offset: The offset in the partition, if the side uses offsets.
            partition: The partition.

        Raises:
            SelectorDisabledError: When outputs wait for the downstream.
            OptionError: When the message doesn't fit the side. (A value of a wrong type isn't an
                error: its message is rejected as malformed.)
        """
        self._check_accepting()  # step 1
        self._get_stream(side).add(key, value, time, partition, offset)
        self._order.append(SIDES.index(side))
        if self._has_receiver or len(self._order) >= MAX_BUFFERED:
            self._drain()
            self._deliver()

    def add_messages(self, *, left: Any = None, right: Any = None, final: bool = False) -> None:
        """Process many messages at once, of one side or of both.

        They are judged by the watermark of their side before the batch, as on Spark.

        Args:
            left: A Polars, pandas or Arrow table, or a list of dictionaries.
            right: The messages of the right side, in the form of ``left``.
            final: Whether the input of both sides ends with these, so that no message waits any
                longer.

        Raises:
            SelectorDisabledError: When outputs wait for the downstream.
            OptionError: When something isn't a table, or its columns don't fit; or when the input
                ends before the columns of a side are known.
        """
        self._check_accepting()
        self._drain()
        messages: dict[SideName, pl.DataFrame] = {}
        for side, table in zip(SIDES, (left, right), strict=True):
            stream = self._streams[side]
            frame = None if table is None else stream.builder.build_from_table(table)
            if frame is not None:
                stream.fix_types()
                messages[side] = frame
        if messages or final:
            self._frame_waiting()
        unknown_side = next((side for side in SIDES if not self._streams[side].has_types), None)
        if final and unknown_side is not None:
            hint = f'give schema={{"{unknown_side}": {{…}}}}'
            raise OptionError("schema", unknown_side, "has shown no message, nor its columns", hint)
        if messages or final:
            self._pending.append(PendingMessages(messages, None, final))
        self._drain()
        self._deliver()

    def advance(self, time: TimeLike, side: SideName | None = None) -> bool:
        """Advance a side's watermark by hand, so that the other's messages don't wait for it.

        Messages behind it are late, and it never goes back. ``windowed(idle=…)`` advances it by the
        clock.

        Args:
            time: The time up to which the input is complete.
            side: ``"left"`` or ``"right"``; both by default.

        Returns:
            Whether no output waits for the downstream.

        Raises:
            OptionError: When it isn't a time, when the join is on the rows axis, which has no
                watermark, or when the columns aren't known yet from messages or ``schema=``.
            SelectorDisabledError: When outputs wait for the downstream.
        """
        if side is not None:
            self._get_stream(side)
        sides = SIDES if side is None else (side,)
        return self._advance(time, lambda watermark: self._windows.advance(watermark, sides))

    def get_result(self, side: SideName | None = None) -> pl.DataFrame:
        """A copy of all pairs since the last flush, or of what one side's windows have sent on.

        Args:
            side: ``"left"`` or ``"right"``: each message of that side once, when its own policy
                lets it into the join, whether it has partners or not; with ``window_outputs=True``.

        Returns:
            The columns of both sides and ``emission``, in the order in which pairs were emitted;
            with a downstream, those that wait to be sent. Of a side: ``window_start`` and
            ``window_end`` of the first of its windows that includes the message, where they lie on
            a grid; the message's fields; and ``emission``: ``late`` behind the watermark, ``full``
            where its window was full before it was let in or the input has ended, else ``early``.

        Raises:
            OptionError: When no such output is kept.
        """
        if side is None:
            return super().get_result()
        self._get_stream(side)
        if side not in self._outputs:
            hint = "make the operator with window_outputs=True"
            raise OptionError("side", side, "has no output by itself", hint)
        self._catch_up()
        return self._to_frame(side)

    @property
    def watermarks(self) -> dict[SideName, int | None]:
        """The watermark of each side, microseconds since the epoch; rows have none."""
        self._catch_up()
        return self._windows.watermarks

    def _read_messages(
        self, side: SideName, start: tuple[Any, Any], end: tuple[Any, Any], *only: Any
    ) -> pl.DataFrame:
        """Return the messages of a side between two positions, each a time and an offset."""
        self._catch_up()
        stream = self._get_stream(side)
        low = self._parse_position("start", side, *start)
        high = self._parse_position("end", side, *end)
        if not self._windows.is_open:
            return pl.DataFrame()
        names = self.spec.side(side).keys
        keys = (to_key_frame("join_keys", names, key) for key in only)
        wanted = [frame for frame in keys if frame is not None]
        messages = self._windows.get_messages(side, AxisRange(low, high), wanted)
        if self.spec.axis == "time" and stream.fields.offset is not None:
            number = stream.fields.offset[1]
            for position, offset, first in ((low, start[1], True), (high, end[1], False)):
                if position is not None and offset is not None:
                    beyond = pl.col(number) < offset if first else pl.col(number) > offset
                    messages = messages.filter(~((pl.col(columns.TIME) == position) & beyond))
        return messages.drop(columns.TIME)

    def _parse_position(
        self, option: str, side: SideName, time: Any, offset: int | None
    ) -> int | None:
        if self.spec.axis == "rows":
            if time is not None:
                hint = f"give {option}_offset"
                raise OptionError(f"{option}_time", time, "isn't on the rows axis", hint)
            return offset
        if offset is not None and (time is None or self.spec.side(side).offset is None):
            text = f"belongs to a {option}_time, on a side with offsets"
            raise OptionError(f"{option}_offset", offset, text, f"give {option}_time alone")
        return self._parse_axis_position(f"{option}_time", time)

    def _get_stream(self, side: SideName) -> InputStream:
        if side not in SIDES:
            raise OptionError("side", side, "isn't a side", 'give "left" or "right"')
        return self._streams[side]

    def _open_windows(self) -> bool:
        """Open the stored state once both sides' columns are known; return whether it is open."""
        if not self._windows.is_open and all(s.has_types for s in self._streams.values()):
            self._windows.open({side: stream.builder for side, stream in self._streams.items()})
            for stream in self._streams.values():
                stream.fix_types()
        return self._windows.is_open

    def _frame_waiting(self) -> None:
        """Convert the buffered single messages to frames."""
        if not self._order:
            return
        frames = {}
        for side, stream in self._streams.items():
            if len(stream):
                frames[side] = stream.to_frame()
                stream.fix_types()
        self._pending.append(PendingMessages(frames, bytes(self._order)))
        self._order.clear()
        for stream in self._streams.values():
            stream.clear()

    def _drain(self) -> None:
        if all(stream.shows_types for stream in self._streams.values() if len(stream)):
            self._frame_waiting()
        # Until the columns of both sides are known, messages wait, and aren't flushed.
        if not self._pending or not self._open_windows():
            return
        waiting, self._pending = self._pending, []
        for pending in waiting:
            self._run_steps(lambda pending=pending: self._windows.process(pending))  # type: ignore[misc]

    def _note_step(self) -> None:
        """Do nothing: any further message may be due."""
