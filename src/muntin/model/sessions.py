"""Session windows: stretches of activity of a key, separated by silence.

Source: KIP-94; sessions on the rows axis: the Samza SQL window operator design.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from muntin.model.axis import Axis, Length, measure, spell
from muntin.model.by_number import Moving
from muntin.model.errors import OptionError

Closed = Literal["both", "left"]


@dataclass(frozen=True, slots=True)
class Sessions(Moving):
    """Windows that messages open and silence ends.

    Attributes:
        gap: The silence. On the rows axis: so many messages in a row without the key.
        closed: ``both``: messages exactly a gap apart share a session; ``left``: they don't.
        axis: What the gap is measured on.

    A session is emitted as ``[first message, last message + gap]``.
    """

    KIND: ClassVar[str] = "session"
    retracts: ClassVar[bool] = True
    row: ClassVar[str] = "a row per session and change"

    gap: int
    closed: Closed = "both"
    axis: Axis = "time"

    @property
    def stored(self) -> str:
        """What there is in place of panes, in words."""
        return "none: stretches of activity are merged, and those that grow together emitted anew"

    @property
    def length(self) -> int:
        """How long a session is, for an estimate."""
        return 2 * self.gap

    @property
    def pace(self) -> int:
        """How far apart sessions are at least."""
        return self.gap

    @property
    def reach(self) -> int:
        """How far beyond its last message a session must be passed to have ended."""
        return self.gap + (1 if self.closed == "both" else 0)

    def ended(self, position: int) -> int:
        """The latest last message of a session that has ended at a position."""
        return position - self.reach

    def __str__(self) -> str:
        edge = "" if self.closed == "both" else ", open at the gap"
        return f"session {spell(self.gap, self.axis)}{edge}"


def session(gap: Length, *, closed: Closed = "both") -> Sessions:
    """Windows that messages open and silence ends.

    Args:
        gap: The silence that ends a session.
        closed: Whether messages exactly a gap apart share a session: ``both`` as Kafka Streams and
            Spark have it, ``left`` as KIP-94 words it.

    Example:
        >>> str(session("30 minutes"))
        'session 30 minutes'
    """
    if closed not in ("both", "left"):
        raise OptionError("closed", closed, "isn't known", 'give "both" or "left"')
    length, axis = measure("gap", gap)
    return Sessions(length, closed, axis)
