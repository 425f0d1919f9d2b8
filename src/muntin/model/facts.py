"""Facts that a checkpoint remembers, read back as the model's values.

A spec is stored in words (``WindowSpec.facts``); whoever looks at a checkpoint from outside has
nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from muntin.model import cumulating, days, sessions, sliding, windows
from muntin.model.axis import Axis, Length, micros, rows
from muntin.model.errors import OptionError
from muntin.model.kinds import Kind
from muntin.model.policies import Each, Every, EveryRows, Policy

_WINDOWS = re.compile(r"(?P<what>.+), origin (?P<unit>day |row )?(?P<origin>-?\d+)(?: us)?")
_SIZED = re.compile(
    r"(tumbling|hopping|cumulating|sliding|session) (.+?)(?: by (.+?))?(?: in (\S+))?"
)
_ROWS = re.compile(r"(\d+) rows?")


@dataclass(frozen=True)
class Facts:
    """What is known of a query from its checkpoint.

    Attributes:
        keys: The key columns.
        time: The event-time column.
        windows: Which windows.
        early: When current windows speak.
        late: When past ones do.
        grace: How long late messages are taken, on the windows' axis.
        retention: How long state is kept, on the windows' axis.
        lateness: How far the watermark trails, microseconds.
        types: The types of the columns, in words.
        buckets: In how many shards the keys are kept.
        offset: The columns of partition and offset, if it has any.
    """

    keys: tuple[str, ...]
    time: str | None
    windows: Kind
    early: Policy | None
    late: Policy
    grace: int
    retention: int
    lateness: int
    types: Mapping[str, str]
    buckets: int
    offset: tuple[str, str] | None

    @property
    def axis(self) -> Axis:
        """What the windows are measured on."""
        return self.windows.axis


@dataclass(frozen=True)
class WindowSeen:
    """One window of a key, as the state has it.

    Attributes:
        start: Where it starts.
        end: Where it ends.
        number: Its number.
        messages: How many messages its panes hold.
        fired: How often it spoke early or late.
        late: How many late messages it has taken.
        untold_early: New messages that wait for the early policy.
        untold_late: Late ones that wait for the late policy.
    """

    start: int
    end: int
    number: int
    messages: int
    fired: int
    late: int
    untold_early: int
    untold_late: int


@dataclass(frozen=True)
class SessionSeen:
    """One session of a key, as the state has it.

    Attributes:
        first: Its first message.
        last: Its last one.
        messages: How many it holds.
        fired: How often it has spoken.
        untold: New messages since.
    """

    first: int
    last: int
    messages: int
    fired: int
    untold: int


def read_back(facts: Mapping[str, str]) -> Facts:
    """The values of stored facts.

    Args:
        facts: What ``WindowSpec.facts`` gave.

    Raises:
        OptionError: When they are those of a join, or were written by another version.
    """
    if "join" in facts:
        raise OptionError("CHECKPOINT", facts["join"], "is a join's", "give one of windows")
    try:
        kind = windows_of(facts["windows"])
        offset = facts["offset"].split(", ") if "offset" in facts else None
        early = None if facts["early"] == "never" else policy_of(facts["early"])
        return Facts(
            tuple(facts["key"].split(", ")) if facts["key"] else (),
            None if facts["time"] == "none" else facts["time"],
            kind,
            early,
            policy_of(facts["late"]),
            _length(facts["grace"], kind.axis),
            _length(facts["keep"], kind.axis),
            micros("lateness", facts["lateness"]),
            {n.removeprefix("type of "): t for n, t in facts.items() if n.startswith("type of ")},
            int(facts.get("buckets", "1")),
            None if offset is None else (offset[0], offset[1]),
        )
    except (KeyError, IndexError, ValueError) as error:
        cure = "use the muntin that wrote the checkpoint"
        raise OptionError("CHECKPOINT", str(error), "can't be read back", cure) from error


def windows_of(text: str) -> Kind:
    """Windows out of the words for them.

    Example:
        >>> str(windows_of("hopping 1 hour by 5 minutes, origin 60000000 us"))
        'hopping 1 hour by 5 minutes'
    """
    outer = _WINDOWS.fullmatch(text)
    if outer is None:
        raise ValueError(f"no windows: {text}")
    closed: sessions.Closed = "both"
    what, origin = outer["what"], int(outer["origin"])
    if what.endswith(", open at the gap"):
        what, closed = what.removesuffix(", open at the gap"), "left"
    sized = _SIZED.fullmatch(what)
    if sized is None:
        raise ValueError(f"no windows: {text}")
    kind, size, step, zone = sized.groups()
    if zone is not None:
        made = days.days(size, zone, slide=step or size)
        grid = windows.Windows(made.grid.size, made.grid.slide, origin, "rows")
        return days.Days(grid, zone)
    length = _measured(size)
    if kind == "tumbling":
        return windows.tumbling(length, origin=origin)
    if kind == "hopping":
        return windows.hopping(length, _measured(step), origin=origin)
    if kind == "cumulating":
        return cumulating.cumulating(length, _measured(step), origin=origin)
    return sliding.sliding(length) if kind == "sliding" else sessions.session(length, closed=closed)


def policy_of(text: str) -> Policy:
    """A policy out of the words for it.

    Example:
        >>> policy_of("every 10 seconds of wall clock")
        Every(period=10000000)
    """
    if text == str(Each()):
        return Each()
    words = text.removeprefix("every ")
    if words.endswith(" of wall clock"):
        return Every(micros("every", words.removesuffix(" of wall clock")))
    if not words.endswith(" rows"):
        raise ValueError(f"no policy: {text}")
    return EveryRows(int(words.removesuffix(" rows")))


def _measured(text: str) -> Length:
    found = _ROWS.fullmatch(text)
    return rows(int(found[1])) if found else text


def _length(text: str, axis: Axis) -> int:
    found = _ROWS.fullmatch(text)
    return int(found[1]) if found and axis == "rows" else micros("length", text)
