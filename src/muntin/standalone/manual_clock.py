"""The wall clock of a standalone operator: it shows the time that it was last set to."""

from __future__ import annotations

from muntin.engine.state import State

# The clock of steps before it is set.
_UNSET = -(2**62)


class ManualClock:
    """A clock that only moves when it is set, and never goes back.

    Attributes:
        wall: The latest time that was given, microseconds; ``None`` before the first.
    """

    def __init__(self) -> None:
        self.wall: int | None = None

    def advance(self, wall: int) -> None:
        """Set the time; an earlier time than before changes nothing."""
        self.wall = wall if self.wall is None else max(self.wall, wall)

    def resume(self, state: State) -> None:
        """Go on from the time that a shard's last step saw."""
        if state.wall not in (None, _UNSET):
            self.advance(state.wall)

    def note_active(self, state: State) -> None:
        """Let the messages since it was set last have come now."""
        if self.wall is not None:
            for name in state.moving:
                state.note_active(self.wall, name)
        state.moving.clear()

    def read(self, state: State) -> int:
        """The clock of a shard's next step."""
        if state.wall == _UNSET:
            state.wall = None
        return _UNSET if self.wall is None else self.wall
