"""The position of a message on the axis, and up to where the input is believed complete."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from muntin.model.axis import FARTHEST
from muntin.model.spec import WindowSpec
from muntin.testing.oracle.window import Key, Message, Placed, Position


@dataclass
class Watermarks:
    """One **mark** for each key: the position up to which its input is believed complete.

    On the time axis it is the watermark, the same for all keys. On the rows axis it is how far the
    rows have come: by offset the greatest offset of the partition and one, by arrival the number of
    messages of the key that were taken. No mark ever goes back.

    Attributes:
        spec: The query.
        watermark: The mark of the time axis; on the rows axis it doesn't move.
        reached: The marks of the rows axis, of each partition or of each key.
        final: Whether the input has ended, so that every mark is at infinity.
        active: The wall clock of the last step with a message that a window may take.
    """

    spec: WindowSpec
    watermark: Position = -math.inf
    reached: dict[Any, int] = field(default_factory=dict)
    final: bool = False
    active: int | None = None

    def copy(self) -> Watermarks:
        """The same marks, to be moved on their own."""
        return replace(self, reached=dict(self.reached))

    def of(self, key: Key) -> Position:
        """The mark of a key."""
        if self.final:
            return math.inf
        if self.spec.axis == "time":
            return self.watermark
        return self.reached.get(key if self.spec.by_arrival else key[0], -math.inf)

    def pass_offset(self, message: Message) -> None:
        """Move the mark of a partition past a message, whether or not some window takes it."""
        if self.spec.axis == "rows" and self.spec.offset is not None:
            partition, offset = (message[column] for column in self.spec.offset)
            if partition is not None and offset is not None:
                self.reached[partition] = max(self.reached.get(partition, 0), offset + 1)

    def place(self, message: Message) -> Placed:
        """Say where a message stands that nothing is wrong with, and move the mark past it."""
        spec = self.spec
        key = tuple(message[name] for name in spec.key_columns)
        if spec.axis == "time":
            assert spec.time is not None
            time = message[spec.time]
            self.watermark = max(self.watermark, time - spec.lateness)
            return Placed(key, time, message)
        if spec.offset is not None:
            return Placed(key, message[spec.offset[1]], message)
        number = self.reached.get(key, 0)
        self.reached[key] = number + 1
        return Placed(key, number, message)

    def pass_keyless(self, message: Message, reason: str, wall: int) -> bool:
        """Let a message move the watermark that is rejected only for a key that is missing."""
        spec = self.spec
        if reason != "null_key" or spec.axis != "time":
            return False
        assert spec.time is not None
        time = message[spec.time]
        ahead = spec.max_ahead is not None and time > wall + spec.max_ahead
        if ahead or abs(time) >= FARTHEST:
            return False
        self.watermark = max(self.watermark, time - spec.lateness)
        return True

    def pass_time(self, some: bool, wall: int, wall_before: int | None) -> None:
        """Let the watermark follow the wall clock where no message has come for long."""
        if self.spec.idle is None:
            return
        if not some and self.active is not None and wall_before is not None:
            silent_from = max(wall_before, self.active + self.spec.idle)
            self.watermark += max(0, wall - silent_from)
        if some or self.active is None:
            self.active = wall

    @property
    def latest(self) -> Position:
        """The greatest time of the input."""
        return self.watermark + self.spec.lateness

    @property
    def emitted(self) -> Position | None:
        """The watermark as it is emitted: None while there is none, and on the rows axis."""
        if self.spec.axis == "rows":
            return None
        position = self.of(())
        return None if position == -math.inf else position
