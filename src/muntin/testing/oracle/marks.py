"""The positions of messages on the axis, and up to which position the input is complete."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muntin.model.inputs import BY_GREATEST
from muntin.model.spec import WindowSpec
from muntin.testing.oracle.window import Key, OracleMessage, Placed, Position


@dataclass(frozen=True)
class SourceClock:
    """The clock of one partition of the source, or of one value of the columns with clocks.

    Attributes:
        time: Greatest event time; minus infinity before the first message.
        behind: Whether the partition has unread messages; ``None`` for a value of columns.
        moved: Wall clock of the last step that moved it.
    """

    time: Position = -math.inf
    behind: bool | None = None
    moved: int = 0


@dataclass
class Watermarks:
    """A **mark** for each key: the position up to which its input is believed complete.

    On the time axis the mark is the watermark, the same for all keys. On the rows axis it counts
    rows: by offset it is the greatest offset of the partition plus one, by arrival the number of
    accepted messages of the key. No mark ever decreases.

    Attributes:
        spec: Query.
        watermark: Mark of the time axis; on the rows axis it doesn't move.
        reached: Marks of the rows axis, by partition or by key.
        final: Whether the input has ended, so that every mark is at infinity.
        active: Wall clock of the last step with a message that a window may take.
        partition: Column with a message's partition of the source, if there is one.
        clocks: Clocks of the input, if it has several.
        new: Messages of this step that move a clock, each as its clock and its time.
    """

    spec: WindowSpec
    watermark: Position = -math.inf
    reached: dict[Any, int] = field(default_factory=dict)
    final: bool = False
    active: int | None = None
    partition: str | None = None
    clocks: dict[Any, SourceClock] = field(default_factory=dict)
    new: list[tuple[Any, int]] = field(default_factory=list)

    def copy(self) -> Watermarks:
        """Return a copy of the marks that moves independently."""
        return replace(self, reached=dict(self.reached), clocks=dict(self.clocks), new=[])

    def of(self, key: Key) -> Position:
        """Return the mark of a key."""
        if self.final:
            return math.inf
        if self.spec.axis == "time":
            return self.watermark
        return self.reached.get(key if self.spec.by_arrival else key[0], -math.inf)

    def pass_offset(self, message: OracleMessage) -> None:
        """Move the mark of a partition past a message, whether or not a window takes it."""
        if self.spec.axis == "rows" and self.spec.offset is not None:
            partition, offset = (message[column] for column in self.spec.offset)
            if partition is not None and offset is not None:
                self.reached[partition] = max(self.reached.get(partition, 0), offset + 1)

    def locate(self, message: OracleMessage) -> Placed:
        """Return a valid message with its position, and move the mark past it."""
        spec = self.spec
        key = tuple(message[name] for name in spec.key_columns)
        if spec.axis == "time":
            assert spec.time is not None
            time = message[spec.time]
            self.pass_message(message, time)
            return Placed(key, time, message)
        if spec.offset is not None:
            return Placed(key, message[spec.offset[1]], message)
        number = self.reached.get(key, 0)
        self.reached[key] = number + 1
        return Placed(key, number, message)

    def pass_message(self, message: OracleMessage, time: int) -> None:
        """Move the watermark past a message, or its clock if there are several."""
        name = self._clock_of(message)
        if name is None:
            self.watermark = max(self.watermark, time - self.spec.lateness)
        else:
            self.new.append((name, time))

    def _clock_of(self, message: OracleMessage) -> Any:
        if self.spec.clocks:
            return tuple(message[column] for column in self.spec.clocks)
        if self.partition is None or self.spec.watermark == BY_GREATEST:
            return None
        return message[self.partition]

    def pass_clocks(self, wall: int, backlog: Mapping[str, bool]) -> None:
        """Let the watermark follow the slowest clock from which more messages may come.

        More may come from a partition with unread messages, and from a value of columns until it is
        idle. If there is no such clock, the watermark follows the greatest time of all.
        """
        if backlog:
            self.clocks = {name: replace(c, behind=False) for name, c in self.clocks.items()}
        for name, behind in backlog.items():
            self.clocks[name] = replace(self.clocks.get(name, SourceClock()), behind=behind)
        for name, time in self.new:
            clock = self.clocks.get(name, SourceClock())
            self.clocks[name] = replace(clock, time=max(clock.time, time), moved=wall)
        idle = math.inf if self.spec.idle is None else self.spec.idle
        waited_for = [
            clock.time
            for clock in self.clocks.values()
            if clock.behind or (clock.behind is None and wall < clock.moved + idle)
        ]
        times = [clock.time for clock in self.clocks.values()]
        if times:
            reached = max(times) if self.final or not waited_for else min(waited_for)
            self.watermark = max(self.watermark, reached - self.spec.lateness)

    def pass_time(self, some: bool, wall: int, wall_before: int | None) -> None:
        """Let the watermark follow the wall clock after a long time without messages."""
        if self.spec.idle is None:
            return
        if not some and self.active is not None and wall_before is not None:
            silent_from = max(wall_before, self.active + self.spec.idle)
            self.watermark += max(0, wall - silent_from)
        if some or self.active is None:
            self.active = wall

    @property
    def latest(self) -> Position:
        """The greatest event time of the input."""
        return self.watermark + self.spec.lateness

    @property
    def common_watermark(self) -> Position | None:
        """The watermark as it is emitted; ``None`` before the first one, and on the rows axis."""
        if self.spec.axis == "rows":
            return None
        position = self.of(())
        return None if position == -math.inf else position
