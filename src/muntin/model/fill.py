"""Filling of windows without messages: with constants, the value before, or a line between two."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any, Literal

from muntin.model.axis import Duration, format_duration, parse_duration
from muntin.model.errors import OptionError
from muntin.model.json_dataclass import JsonDataclass
from muntin.model.kinds import Kind

FillWord = Literal["zero", "null", "previous", "linear"]
PREVIOUS, LINEAR = "previous", "linear"
FILL_WORDS = ("zero", "null", PREVIOUS, LINEAR)
_QUOTE = "'"
_VALUES = 'give "zero", "null", "previous" or "linear"'


@dataclass(frozen=True, slots=True)
class Fill(JsonDataclass):
    """Filling of windows without messages, so that they emit, too.

    Attributes:
        value: The word for all aggregates that ``values`` doesn't name.
        up_to: How long after the end of its last window with a message a key is filled,
            microseconds.
        values: Names of aggregates with a word or a constant each. A text constant is in quotes.
    """

    value: str
    up_to: int
    values: tuple[tuple[str, Any], ...] = ()

    def way_of(self, name: str) -> Any:
        """Return the word, or the constant, for an aggregate.

        Example:
            >>> fill = fill_of(None, "1 day", {"mean": "previous", "city": "Rome"})
            >>> fill.way_of("mean"), fill.way_of("city"), fill.way_of("n")
            ('previous', "'Rome'", 'null')
        """
        return dict(self.values).get(name, self.value)

    @property
    def words(self) -> set[str]:
        """The words that it uses."""
        return {way for way in (self.value, *dict(self.values).values()) if way in FILL_WORDS}

    @property
    def waits(self) -> bool:
        """True if a window is filled only when the next one with messages has closed."""
        return LINEAR in self.words

    @property
    def follows(self) -> bool:
        """True if values of windows with messages are repeated, so that they must be stored."""
        return not {PREVIOUS, LINEAR}.isdisjoint(self.words)

    def __str__(self) -> str:
        each = (f"{name}={write_constant(way)}" for name, way in self.values)
        return f"{', '.join([self.value, *each])} up to {format_duration(self.up_to)}"


# What other libraries call the words.
_OTHER_WORDS = {
    **dict.fromkeys(("ffill", "pad", "forward", "prev", "locf", "last"), "previous"),
    **dict.fromkeys(("interpolate", "interpolation"), "linear"),
    **dict.fromkeys(("0", "0.0", "zeros"), "zero"),
    **dict.fromkeys(("none", "nan", "na"), "null"),
}


def fill_of(value: str | None, up_to: Duration, values: Mapping[str, object] | None = None) -> Fill:
    """Return the filling of windows without messages, with its options checked."""
    if value is None and not values:
        raise OptionError("fill", value, "doesn't say with what", _VALUES)
    if value is not None and value not in FILL_WORDS:
        hint = f"{_VALUES}; or name the aggregate, as in .fill(n=0, up_to=…)"
        if str(value).lower() in _OTHER_WORDS:
            hint = f'write "{_OTHER_WORDS[str(value).lower()]}"'
        raise OptionError("fill", value, "isn't what fills a window", hint)
    ways = tuple((name, _read_way(name, way)) for name, way in (values or {}).items())
    return Fill(value or "null", parse_duration("up_to", up_to, zero=False), ways)


def _read_way(name: str, way: object) -> Any:
    """Return a word as it is, a text in quotes, and a number as a plain one."""
    if way is None or isinstance(way, bool):
        return way
    if isinstance(way, str):
        return way if way in FILL_WORDS or _is_quoted(way) else f"{_QUOTE}{way}{_QUOTE}"
    if isinstance(way, Integral):
        return int(way)
    if isinstance(way, Real) and isfinite(way):
        return float(way)
    hint = f"give a number, a text, True or False; or {_VALUES.removeprefix('give ')}"
    raise OptionError("fill", {name: way}, "isn't what fills a window", hint)


def _is_quoted(way: str) -> bool:
    return len(way) > 1 and way.startswith(_QUOTE) and way.endswith(_QUOTE)


def read_constant(way: Any) -> Any:
    """Return the value of a constant, of which texts have quotes.

    Example:
        >>> read_constant("'previous'"), read_constant(0.5)
        ('previous', 0.5)
    """
    return way[1:-1] if isinstance(way, str) else way


def write_constant(way: Any) -> str:
    """Return a word or a constant as SQL writes it.

    Example:
        >>> write_constant("previous"), write_constant("'previous'"), write_constant(None)
        ('previous', "'previous'", 'null')
    """
    return "null" if way is None else str(way).lower() if isinstance(way, bool) else str(way)


def check_fill(fill: Fill, windows: Kind, aggregates: Collection[str], accumulates: bool) -> None:
    """Refuse to fill windows that exist only with messages, and aggregates that don't exist.

    ``accumulates`` says that emissions have the whole result, not only what is new.
    """
    if windows.axis == "rows" or windows.retracts or windows.moves:
        hint = "leave it out, or give tumbling, hopping, cumulating or calendar windows in time"
        raise OptionError("fill", str(windows), "are only where there are messages", hint)
    windows = windows.in_zone("UTC")
    assert windows.is_numbered
    pace = windows.start(1) - windows.start(0) or windows.pace
    if fill.up_to < pace:
        hint = f"give at least {format_duration(pace)}, the distance between two windows"
        raise OptionError("up_to", format_duration(fill.up_to), "fills no window", hint)
    for name, _ in fill.values:
        if name not in aggregates:
            # SQL's own names of aggregates within expressions can't be said.
            names = ", ".join(one for one in aggregates if not one.startswith("__"))
            hint = f"give some of {names}" if names else "select an aggregate by itself"
            raise OptionError("fill", name, f"names {name}, which is no aggregate", hint)
    if fill.follows and not accumulates:
        hint = 'leave deltas() out, or fill with "zero", "null" or constants'
        problem = "repeats results, and deltas() emits only what is new"
        raise OptionError("fill", str(fill), problem, hint)
