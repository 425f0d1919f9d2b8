"""Segments of the window store and the session store, which expire as a whole.

Source: KIP-94 (segment interval); the in-memory window store's proposal (expired segments are
dropped before each action).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from muntin.model.axis import Duration
from muntin.model.errors import OptionError
from muntin.stores import keys
from muntin.stores.namespace import NamedStore, Namespace, parse_axis_length


def segment_interval(retention: int, segments: int, minimum: Duration | int) -> int:
    """Return the length of a segment: ``max(retention / (segments - 1), minimum)``.

    Source: KIP-94. Expired rows are dropped by whole segments, of which at most
    ``segments + 1`` are in use.

    Example:
        >>> segment_interval(2_000, segments=3, minimum=1)
        1000
    """
    if segments < 2:
        raise OptionError("segments", segments, "are too few to drop one", "give 2 or more")
    return max(retention // (segments - 1), parse_axis_length("minimum", minimum))


class SegmentedStore(NamedStore, ABC):
    """A store that keeps rows for a retention, and drops them by segments.

    Args:
        namespace: The store's rows.
        retention: How long a row is kept, in the axis' unit.
        interval: The length of a segment, in the axis' unit.
    """

    def __init__(self, namespace: Namespace, retention: int, interval: int) -> None:
        super().__init__(namespace)
        self.retention = retention
        self.interval = interval
        self._dropped: int | None = None

    @abstractmethod
    def _first_part(self, segment: int) -> int:
        """Return the least first key part of a segment."""

    def segment(self, time: int) -> int:
        """Return the segment of a time (for a session: of its end)."""
        return time // self.interval

    def advance(self, time: int) -> None:
        """Advance to a time, and drop the segments that have expired by it."""
        self._namespace.observe(time)
        self._expire()

    def _find_edge(self) -> int | None:
        """Return the greatest time that isn't kept any more."""
        return None if self.observed is None else self.observed - self.retention

    def _expire(self) -> None:
        edge = self._find_edge()
        if edge is None:
            return
        segment = self.segment(edge + 1)
        if self._dropped is None or segment > self._dropped:
            self._namespace.delete_range(b"", keys.encode_part(self._first_part(segment)))
            self._dropped = segment
