"""Session windows: periods of activity of a key, separated by gaps without messages.

Source: KIP-94; the Samza SQL window operator design (sessions on the rows axis); Spark's
``session_window`` and Beam's session windows (a gap of its own for each message).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from muntin.model.axis import DAY, HOUR, Axis, Duration, Length, measure, micros, spell
from muntin.model.by_number import Moving
from muntin.model.errors import OptionError

Closed = Literal["both", "left"]
# A longer gap is a mistaken unit.
LONGEST_GAP = 36_525 * DAY


@dataclass(frozen=True, slots=True)
class Sessions(Moving):
    """Windows that a message opens and a gap without messages ends.

    Attributes:
        gap: The gap that ends a session; on the rows axis the number of consecutive messages
            without the key. It is 0 if each message has its own gap; the last position of a session
            is then the greatest position that one of its messages, with its gap, extends to.
        closed: ``both`` if messages exactly a gap apart share a session, ``left`` if they don't.
        axis: The axis that the gap is measured on.
        by: The column of each message's own gap, microseconds or a duration; ``None`` if messages
            have none.
        longest: The longest duration of a session, from its first message on; ``None`` for any.

    A session is emitted as ``[first message, last message + gap]``. One of the longest duration
    ends there, and its last position is counted as a gap before that end.
    """

    KIND: ClassVar[str] = "session"
    retracts: ClassVar[bool] = True
    row: ClassVar[str] = "a row per session and change"

    gap: int
    closed: Closed = "both"
    axis: Axis = "time"
    by: Any = None
    longest: int | None = None

    @property
    def storage(self) -> str:
        """The stored units, which take the place of panes, in words."""
        if self.longest is not None:
            return "none: messages of open sessions are kept by time, from which sessions are cut"
        return "none: stretches of activity are merged, and those that grow together emitted anew"

    @property
    def length(self) -> int:
        """Assumed length of a session, for estimates."""
        return 2 * self.pace

    @property
    def pace(self) -> int:
        """Least distance of two sessions; an hour is assumed if each message has its own gap."""
        return self.gap if self.by is None else HOUR

    @property
    def memory(self) -> int:
        """The time for which a closed session is remembered, so that none overlaps it."""
        return self.pace if self.longest is None else self.longest + self.gap

    @property
    def reach(self) -> int:
        """Distance from a session's last message at which the watermark ends the session."""
        return self.gap + (1 if self.closed == "both" else 0)

    def ended(self, position: int) -> int:
        """Return the latest position of the last message of a session that has ended by then."""
        return position - self.reach

    def __str__(self) -> str:
        edge = "" if self.closed == "both" else ", open at the gap"
        if self.by is not None:
            # The gap is an expression, of which only the internal column name is stored.
            own = isinstance(self.by, str) and not self.by.startswith("__muntin")
            return f"session by {self.by if own else 'the gap of each message'}{edge}"
        most = "" if self.longest is None else f", at most {spell(self.longest, self.axis)}"
        return f"session {spell(self.gap, self.axis)}{most}{edge}"


def session(
    gap: Length | None = None,
    *,
    closed: Closed = "both",
    by: Any = None,
    longest: Duration | None = None,
) -> Sessions:
    """Return session windows with one gap, or with the gap of each message.

    Example:
        >>> str(session("30 minutes")), str(session(by="patience"))
        ('session 30 minutes', 'session by patience')
    """
    if closed not in ("both", "left"):
        raise OptionError("closed", closed, "isn't known", 'give "both" or "left"')
    if (gap is None) == (by is None):
        problem = "is missing" if gap is None else "can't be combined with by="
        hint = 'give session("30 minutes"), or session(by="column") of their own gaps'
        raise OptionError("gap", gap, problem, hint)
    if gap is None:
        if longest is not None:
            hint = 'give one gap for all messages: session("30 minutes", longest="8 hours")'
            raise OptionError("longest", longest, "needs a gap that ends sessions", hint)
        return Sessions(0, closed, "time", by)
    length, axis = measure("gap", gap)
    if longest is None:
        return Sessions(length, closed, axis)
    if axis == "rows":
        hint = "leave it out, or measure the gap in time"
        raise OptionError("longest", longest, "is a time beside a gap of rows", hint)
    most = micros("longest", longest, zero=False)
    if most < length:
        hint = f"give at least the gap, {spell(length, axis)}"
        raise OptionError("longest", longest, "is shorter than the gap", hint)
    return Sessions(length, closed, axis, None, most)
