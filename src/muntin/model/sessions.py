"""Session windows: stretches of activity of a key, separated by silence.

Source: KIP-94; sessions on the rows axis: the Samza SQL window operator design; a silence that each
message says for itself: Spark's ``session_window`` and Beam's windows of a session.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from muntin.model.axis import DAY, HOUR, Axis, Length, measure, spell
from muntin.model.by_number import Moving
from muntin.model.errors import OptionError

Closed = Literal["both", "left"]
# A longer one is a mistaken unit.
LONGEST_GAP = 36_525 * DAY


@dataclass(frozen=True, slots=True)
class Sessions(Moving):
    """Windows that messages open and silence ends.

    Attributes:
        gap: The silence. On the rows axis: so many messages in a row without the key. Where each
            message says its own it is 0, and what is called the last place of a session is the
            greatest one up to which one of its messages reaches.
        closed: ``both``: messages exactly a gap apart share a session; ``left``: they don't.
        axis: What the gap is measured on.
        by: The column of each message's own gap, microseconds or a duration, if they have one.

    A session is emitted as ``[first message, last message + gap]``.
    """

    KIND: ClassVar[str] = "session"
    retracts: ClassVar[bool] = True
    row: ClassVar[str] = "a row per session and change"

    gap: int
    closed: Closed = "both"
    axis: Axis = "time"
    by: Any = None

    @property
    def stored(self) -> str:
        """What there is in place of panes, in words."""
        return "none: stretches of activity are merged, and those that grow together emitted anew"

    @property
    def length(self) -> int:
        """How long a session is, for an estimate."""
        return 2 * self.pace

    @property
    def pace(self) -> int:
        """How far apart sessions are at least; an hour is assumed where each message says it."""
        return self.gap if self.by is None else HOUR

    @property
    def reach(self) -> int:
        """How far beyond its last message a session must be passed to have ended."""
        return self.gap + (1 if self.closed == "both" else 0)

    def ended(self, position: int) -> int:
        """The latest last message of a session that has ended at a position."""
        return position - self.reach

    def __str__(self) -> str:
        edge = "" if self.closed == "both" else ", open at the gap"
        if self.by is not None:
            # Of an expression there is only the name of what it gives.
            own = isinstance(self.by, str) and not self.by.startswith("__muntin")
            return f"session by {self.by if own else 'the gap of each message'}{edge}"
        return f"session {spell(self.gap, self.axis)}{edge}"


def session(gap: Length | None = None, *, closed: Closed = "both", by: Any = None) -> Sessions:
    """Windows that messages open and silence ends; see ``Sentence.session``.

    Example:
        >>> str(session("30 minutes")), str(session(by="patience"))
        ('session 30 minutes', 'session by patience')
    """
    if closed not in ("both", "left"):
        raise OptionError("closed", closed, "isn't known", 'give "both" or "left"')
    if (gap is None) == (by is None):
        problem = "is missing" if gap is None else "stands beside by="
        hint = 'give session("30 minutes"), or session(by="column") of their own gaps'
        raise OptionError("gap", gap, problem, hint)
    if gap is None:
        return Sessions(0, closed, "time", by)
    length, axis = measure("gap", gap)
    return Sessions(length, closed, axis)
