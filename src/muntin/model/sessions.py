"""Session windows: periods of activity of a key, separated by gaps without messages.

Source: KIP-94; the Samza SQL window operator design (sessions on the rows axis); Spark's
``session_window`` and Beam's session windows (a gap of its own for each message).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from muntin.model.axis import (
    DAY,
    HOUR,
    Axis,
    Duration,
    Length,
    format_length,
    parse_duration,
    parse_length,
)
from muntin.model.by_number import Moving
from muntin.model.errors import OptionError

Closed = Literal["both", "left"]
# A longer gap is a mistaken unit.
LONGEST_GAP = 36_525 * DAY
CONDITION_OPTIONS = ("start", "end", "same")
"""The fields of sessions that messages are evaluated for, in the order of their words."""
AN_EXPRESSION = "(an expression)"
"""The words of a condition or column that was given as an expression, which has no stable text."""


@dataclass(frozen=True, slots=True)
class Sessions(Moving):
    """Windows that a message opens and a gap without messages ends.

    Attributes:
        gap: The gap that ends a session; on the rows axis the number of consecutive messages
            without the key. It is 0 if each message has its own gap; the last position of a session
            is then the greatest position that one of its messages, with its gap, extends to.
        closed: ``both`` if messages exactly a gap apart share a session, ``left`` if they don't.
        by: The column of each message's own gap, microseconds or a duration; ``None`` if messages
            have none.
        longest: The longest duration of a session, from its first message on; ``None`` for any.
        start: The condition of messages that begin a session; ``None`` if each may.
        end: The condition of messages that end their session; ``None`` if none does.
        same: The column that keeps its value within a session; ``None`` if there is none.

    A session is emitted as ``[first message, last message + gap]``. One that is **cut** ends
    sooner: at its longest duration, at the message that ends it, or where a message begins another
    one. Its last position is then counted as so long before its end that the watermark ends it
    there.
    """

    KIND: ClassVar[str] = "session"
    is_numbered: ClassVar[Literal[False]] = False
    retracts: ClassVar[bool] = True
    row: ClassVar[str] = "a row per session and change"

    gap: int
    closed: Closed = "both"
    axis: Axis = "time"
    by: Any = None
    longest: int | None = None
    start: Any = None
    end: Any = None
    same: Any = None

    @property
    def columns(self) -> dict[str, Any]:
        """The column of gaps, and the conditions."""
        return self.conditions if self.by is None else {"by": self.by}

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions and the column that sessions depend on, by option."""
        named = ((option, getattr(self, option)) for option in CONDITION_OPTIONS)
        return {option: value for option, value in named if value is not None}

    @property
    def is_cut(self) -> bool:
        """True if a session may end before a gap without messages."""
        return self.longest is not None or bool(self.conditions)

    @property
    def includes_end(self) -> bool:
        """True if messages exactly a gap apart share a session."""
        return self.closed == "both"

    @property
    def can_reopen(self) -> bool:
        """True unless sessions are cut, for which their messages would have to be kept."""
        return not self.is_cut

    @property
    def own_gap(self) -> Any:
        """The column of each message's own gap; ``None`` if there is none."""
        return self.by

    @property
    def storage(self) -> str:
        """The stored units, which take the place of panes, in words."""
        if self.is_cut:
            text = "none: messages of open sessions are kept by time, from which sessions are cut"
            whole = "; messages themselves, until it is certain whether a session has them"
            return text + whole * (self.start is not None)
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

    def last_ended(self, position: int) -> int:
        """Return the latest position of the last message of a session that has ended by then."""
        return position - self.reach

    def first_from(self, position: int) -> int:
        """Return the position itself: a session's last position takes the place of a number."""
        return position

    def last_window(self, position: int) -> int:
        """Return the position itself, since each position may be the last one of a session."""
        return position

    def first_whole_start(self, position: int) -> int:
        """Return the first start of a session that can't have had messages before a position."""
        return position + self.reach

    def watermark_at_end(self, window: int) -> int:
        """Return the least watermark by which a session with that last position has ended."""
        return window + self.reach

    def __str__(self) -> str:
        edge = "" if self.closed == "both" else ", open at the gap"
        if self.by is not None:
            # The gap is an expression, of which only the internal column name is stored.
            own = isinstance(self.by, str) and not self.by.startswith("__muntin")
            return f"session by {self.by if own else 'the gap of each message'}{edge}"
        most = "" if self.longest is None else f", at most {format_length(self.longest, self.axis)}"
        words = "".join(f", {option} {value}" for option, value in self.conditions.items())
        return f"session {format_length(self.gap, self.axis)}{most}{words}{edge}"


def make_sessions(
    gap: Length | None = None,
    *,
    closed: Closed = "both",
    by: Any = None,
    longest: Duration | None = None,
    start: Any = None,
    end: Any = None,
    same: Any = None,
) -> Sessions:
    """Return session windows with one gap, or with the gap of each message.

    Example:
        >>> str(make_sessions("30 minutes")), str(make_sessions(by="patience"))
        ('session 30 minutes', 'session by patience')
    """
    if closed not in ("both", "left"):
        raise OptionError("closed", closed, "isn't known", 'give "both" or "left"')
    if (gap is None) == (by is None):
        problem = "is missing" if gap is None else "can't be combined with by="
        hint = 'give session("30 minutes"), or session(by="column") of their own gaps'
        raise OptionError("gap", gap, problem, hint)
    cuts = {"longest": longest, "start": start, "end": end, "same": same}
    limits = {option: value for option, value in cuts.items() if value is not None}
    if gap is None:
        for option, value in limits.items():
            hint = f'give one gap for all messages: session("30 minutes", {option}=…)'
            raise OptionError(option, str(value), "needs a gap that ends sessions", hint)
        return Sessions(0, closed, "time", by)
    length, axis = parse_length("gap", gap)
    for option, value in limits.items() if axis == "rows" else ():
        hint = "leave it out, or measure the gap in time"
        raise OptionError(option, str(value), "needs a gap in time, not in rows", hint)
    most = None if longest is None else parse_duration("longest", longest, zero=False)
    if most is not None and most < length:
        hint = f"give at least the gap, {format_length(length, axis)}"
        raise OptionError("longest", longest, "is shorter than the gap", hint)
    return Sessions(length, closed, axis, None, most, start, end, same)
