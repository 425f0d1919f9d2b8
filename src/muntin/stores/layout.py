"""How the message store orders its rows: the message-key matrix of the Samza design, once.

Source: the Samza SQL window operator design, "Message Store". The key of a message is made of its
position (event time and source offset, or the offset alone where windows count rows), and of the
fields that a join compares for equality. Their order decides which range queries are contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from muntin.model.axis import Axis
from muntin.model.errors import OptionError
from muntin.stores import keys

Use = Literal["aggregate", "join"]
Size = Literal["small", "large"]

# A position on the axis: a time or offset, or a time with an offset within it. None is open.
StorePosition = int | tuple[int, int] | None


class MessagePlace(NamedTuple):
    """The parts of a message's key; parts that the layout leaves out are ``None``."""

    session: Any
    equal: Any
    time: int | None
    offset: int


class Bounds(NamedTuple):
    """The rows of a query: keys from ``low`` to below ``high``.

    ``exact`` says that they are all wanted; otherwise each has to be looked at (``Layout.holds``).
    """

    low: bytes
    high: bytes
    exact: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """An order of key parts; ``message_layout`` chooses one.

    Attributes:
        axis: ``"time"`` (microseconds) or ``"rows"`` (source offsets).
        parts: The parts in their order: of ``"session"``, ``"equal"``, ``"time"``, ``"offset"``.

    Example:
        >>> layout = message_layout("time", "join", equal_fields=True)
        >>> str(layout)
        'equal_time_offset'
        >>> layout.read(layout.key(offset=7, time=1_000, equal="id 1"))
        MessagePlace(session=None, equal='id 1', time=1000, offset=7)
    """

    axis: Axis
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return "_".join(self.parts)

    @property
    def along_axis(self) -> bool:
        """Whether rows are ordered by position, so that expired rows are one range."""
        return self.parts[0] in ("time", "offset")

    def key(
        self, *, offset: int, time: int | None = None, equal: Any = None, session: Any = None
    ) -> bytes:
        """The key of a message."""
        given = {"session": session, "equal": equal, "time": time, "offset": offset}
        return keys.encode(tuple(given[part] for part in self.parts))

    def read(self, key: bytes) -> MessagePlace:
        """Return the parts of an encoded key."""
        found = dict(zip(self.parts, keys.decode(key), strict=True))
        return MessagePlace(
            found.get("session"), found.get("equal"), found.get("time"), found["offset"]
        )

    def position(self, place: MessagePlace) -> int:
        """Return the position of a message on the axis."""
        return place.offset if place.time is None else place.time

    def in_window(
        self, start: StorePosition, end: StorePosition, *, equal: Any = None, session: Any = None
    ) -> Bounds:
        """All messages from a position to another, both included; of one key where it is given."""
        low = b""
        given = {"session": session, "equal": equal}
        for number, part in enumerate(self.parts):
            if part in ("time", "offset"):
                # Offsets within a time bound the stretch only where they come right behind it.
                fine = self.parts[number + 1 :] in (("offset",), ())
                first, last = _cut(start, fine), _cut(end, fine)
                loose = not fine and (isinstance(start, tuple) or isinstance(end, tuple))
                exact = not loose and all(value is None for value in given.values())
                return Bounds(low + first, low + last + keys.AFTER, exact)
            if given[part] is None:
                break
            low += keys.encode_part(given.pop(part))
        exact = start is None and end is None and all(v is None for v in given.values())
        return Bounds(low, low + keys.AFTER, exact)

    def expired(self, edge: int, *, equal: Any = None, session: Any = None) -> Bounds:
        """All messages at or before a position.

        Where equal fields or a session come first, the stretch is contiguous within one of them
        only: elsewhere each row has to be looked at.
        """
        return self.in_window(None, edge, equal=equal, session=session)

    def holds(self, place: MessagePlace, start: StorePosition, end: StorePosition) -> bool:
        """Return whether a message lies between two positions, both included."""
        here = (place.offset,) if place.time is None else (place.time, place.offset)
        first = start if isinstance(start, tuple) else (start,)
        last = end if isinstance(end, tuple) else (end,)
        return (start is None or here[: len(first)] >= first) and (
            end is None or here[: len(last)] <= last
        )


def _cut(position: StorePosition, fine: bool) -> bytes:
    if position is None:
        return b""
    if isinstance(position, tuple):
        return keys.encode(position) if fine else keys.encode(position[:1])
    return keys.encode_part(position)


def message_layout(
    axis: Axis = "time",
    use: Use = "aggregate",
    *,
    equal_fields: bool = False,
    time_range: bool = False,
    window: Size | None = None,
    session: bool = False,
) -> Layout:
    """Choose the order of a message's key, by the ten rows of the design's matrix.

    | axis | use | equal fields | time range | window | key |
    | --- | --- | --- | --- | --- | --- |
    | rows | aggregate | | | | offset |
    | rows | join | no | | | offset |
    | rows | join | yes | | small | offset |
    | rows | join | yes | | large | equal, offset |
    | time | aggregate | | | | time, offset |
    | time | join | no | no | | time, offset |
    | time | join | no | yes | | time, offset |
    | time | join | yes | no | any | equal, time, offset |
    | time | join | yes | yes | small | time, equal, offset |
    | time | join | yes | yes | large | equal, time, offset |

    Where the matrix goes by the window's size and none is given, the design's default is taken:
    the position alone (offset; time, offset).

    Args:
        axis: What windows are measured on.
        use: What they are for.
        equal_fields: Whether the join compares fields for equality.
        time_range: Whether the join also bounds the time between partners.
        window: Whether few (``"small"``) or many (``"large"``) messages lie in a window.
        session: Whether windows are sessions, whose key then comes before everything.

    Raises:
        OptionError: When an option isn't one of those, or doesn't go with the others.
    """
    _check("axis", axis, ("time", "rows"))
    _check("use", use, ("aggregate", "join"))
    _check("window", window, ("small", "large", None))
    if use == "aggregate" and (equal_fields or time_range):
        option = "equal_fields" if equal_fields else "time_range"
        raise OptionError(option, True, "is a condition of joins", 'give use="join"')
    if axis == "rows" and time_range:
        hint = 'give axis="time", or leave time_range out'
        raise OptionError("time_range", True, "needs windows on the time axis", hint)
    position = ("offset",) if axis == "rows" else ("time", "offset")
    return Layout(axis, ("session",) * session + _order(position, equal_fields, time_range, window))


def _order(
    position: tuple[str, ...], equal_fields: bool, time_range: bool, window: Size | None
) -> tuple[str, ...]:
    timed = len(position) == 2
    if equal_fields and (window == "large" or (timed and not time_range)):
        return ("equal", *position)
    if equal_fields and timed and window == "small":
        return ("time", "equal", "offset")
    return position


def _check(option: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        names = ", ".join(repr(name) for name in known)
        raise OptionError(option, value, "isn't known", f"give one of {names}")
