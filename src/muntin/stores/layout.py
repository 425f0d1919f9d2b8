"""The order of the message store's rows: the message-key matrix of the Samza design.

Source: the Samza SQL window operator design, "Message Store". The key of a message consists of its
position (event time and source offset, or the offset alone for windows of rows), and of the
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


class MessageKey(NamedTuple):
    """The parts of a message's key; parts that the layout omits are ``None``."""

    session: Any
    equal: Any
    time: int | None
    offset: int


class Bounds(NamedTuple):
    """The key range of a query, from ``low`` to below ``high``.

    ``exact`` is true if every row in the range matches; else check each (``Layout.holds``).
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
        MessageKey(session=None, equal='id 1', time=1000, offset=7)
    """

    axis: Axis
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return "_".join(self.parts)

    @property
    def along_axis(self) -> bool:
        """True if rows are ordered by position, so that expired rows are one range."""
        return self.parts[0] in ("time", "offset")

    def key(
        self, *, offset: int, time: int | None = None, equal: Any = None, session: Any = None
    ) -> bytes:
        """Encode the key of a message."""
        values = {"session": session, "equal": equal, "time": time, "offset": offset}
        return keys.encode_key(tuple(values[part] for part in self.parts))

    def read(self, key: bytes) -> MessageKey:
        """Return the parts of an encoded key."""
        values = dict(zip(self.parts, keys.decode_key(key), strict=True))
        return MessageKey(
            values.get("session"), values.get("equal"), values.get("time"), values["offset"]
        )

    def position(self, key: MessageKey) -> int:
        """Return the position of a message on the axis."""
        return key.offset if key.time is None else key.time

    def in_window(
        self, start: StorePosition, end: StorePosition, *, equal: Any = None, session: Any = None
    ) -> Bounds:
        """Return the range of all messages between two positions, both included.

        Args:
            start: The first position; ``None`` for open.
            end: The last position; ``None`` for open.
            equal: Only messages with these equal fields.
            session: Only messages of this session key.
        """
        low = b""
        values = {"session": session, "equal": equal}
        for number, part in enumerate(self.parts):
            if part in ("time", "offset"):
                # Offsets within a time bound the range only if they directly follow the time.
                fine = self.parts[number + 1 :] in (("offset",), ())
                first, last = _encode_bound(start, fine), _encode_bound(end, fine)
                loose = not fine and (isinstance(start, tuple) or isinstance(end, tuple))
                exact = not loose and all(value is None for value in values.values())
                return Bounds(low + first, low + last + keys.AFTER, exact)
            if values[part] is None:
                break
            low += keys.encode_part(values.pop(part))
        exact = start is None and end is None and all(v is None for v in values.values())
        return Bounds(low, low + keys.AFTER, exact)

    def holds(self, key: MessageKey, start: StorePosition, end: StorePosition) -> bool:
        """Return whether a message lies between two positions, both included."""
        position = (key.offset,) if key.time is None else (key.time, key.offset)
        first = start if isinstance(start, tuple) else (start,)
        last = end if isinstance(end, tuple) else (end,)
        return (start is None or position[: len(first)] >= first) and (
            end is None or position[: len(last)] <= last
        )


def _encode_bound(position: StorePosition, with_offset: bool) -> bytes:
    if position is None:
        return b""
    if isinstance(position, tuple):
        return keys.encode_key(position) if with_offset else keys.encode_key(position[:1])
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

    If the matrix depends on the window's size and none is given, the design's default applies: the
    position alone (offset; time, offset).

    Args:
        axis: The axis of the windows: ``"time"`` or ``"rows"``.
        use: ``"aggregate"`` or ``"join"``.
        equal_fields: Whether the join compares fields for equality.
        time_range: Whether the join also bounds the time between partners.
        window: Whether few (``"small"``) or many (``"large"``) messages lie in a window.
        session: Whether windows are sessions, whose key then comes before everything.

    Raises:
        OptionError: When an option has another value, or conflicts with the others.
    """
    _check_choice("axis", axis, ("time", "rows"))
    _check_choice("use", use, ("aggregate", "join"))
    _check_choice("window", window, ("small", "large", None))
    if use == "aggregate" and (equal_fields or time_range):
        option = "equal_fields" if equal_fields else "time_range"
        raise OptionError(option, True, "is a condition of joins", 'give use="join"')
    if axis == "rows" and time_range:
        hint = 'give axis="time", or leave time_range out'
        raise OptionError("time_range", True, "needs windows on the time axis", hint)
    position = ("offset",) if axis == "rows" else ("time", "offset")
    return Layout(
        axis, ("session",) * session + _order_parts(position, equal_fields, time_range, window)
    )


def _order_parts(
    position: tuple[str, ...], equal_fields: bool, time_range: bool, window: Size | None
) -> tuple[str, ...]:
    on_time_axis = len(position) == 2
    if equal_fields and (window == "large" or (on_time_axis and not time_range)):
        return ("equal", *position)
    if equal_fields and on_time_axis and window == "small":
        return ("time", "equal", "offset")
    return position


def _check_choice(option: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        names = ", ".join(repr(name) for name in choices)
        raise OptionError(option, value, "isn't known", f"give one of {names}")
