"""The wall clock of an operator that runs by itself: only what somebody has set it to."""

from __future__ import annotations

from muntin.engine.state import State

# The clock of steps before anybody has set it.
_UNTOLD = -(2**62)


class SetClock:
    """A clock that stands still until it is given the time, and never goes back.

    Attributes:
        wall: The latest time that was given, microseconds; ``None`` before the first.
    """

    def __init__(self) -> None:
        self.wall: int | None = None

    def emit(self, wall: int) -> None:
        """Say what time it is; an earlier time than before changes nothing."""
        self.wall = wall if self.wall is None else max(self.wall, wall)

    def resume(self, state: State) -> None:
        """Go on from the time that a shard's last step saw."""
        if state.wall not in (None, _UNTOLD):
            self.emit(state.wall)

    def read(self, state: State) -> int:
        """The clock of a shard's next step."""
        if state.wall == _UNTOLD:
            state.wall = None
        return _UNTOLD if self.wall is None else self.wall
