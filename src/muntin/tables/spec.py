"""What a table is, apart from what is in it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple, Self

from muntin.model.axis import phrase
from muntin.model.bounds import placed
from muntin.model.errors import OptionError, SpecChangedError, StateCorruptedError
from muntin.model.facts import Fact, differences
from muntin.model.kinds import KINDS
from muntin.model.sessions import Sessions
from muntin.model.windows import Windows
from muntin.tables import packed
from muntin.tables.moments import seconds

# Windows that end within this share of their retention are stored, and dropped, together.
SEGMENTS = 8
# As many for windows that are kept indefinitely.
UNBOUNDED_SPAN = 256
# Types that have a name wherever a table is read.
PLAIN: dict[str, type] = {
    kind.__name__: kind for kind in (bool, int, float, str, bytes, datetime, date)
}


class WindowRange(NamedTuple):
    """A window as callbacks and views give it: ``[start, end)`` in seconds since the epoch.

    Faust prints ``end - 0.1`` as the end; here it is the end.
    """

    start: float
    end: float


WindowClose = Callable[[tuple[Any, WindowRange], Any], Any]


@dataclass(frozen=True)
class TableSpec:
    """A table.

    Attributes:
        name: Its name, unique in its app.
        default: Makes the value of a key that has none; ``None``: such a key is an error.
        value_type: A dataclass, pydantic model or plain type that values are, where it was said.
        key_type: A plain type that keys are, where it was said.
        sets: Whether a value is a set, kept member by member.
        windows: Which windows, if any.
        expires: How long after its end a window is kept, microseconds; ``None``: indefinitely.
        merge: What becomes of the values of sessions that grow together.
        key_index: Whether all keys may be walked.
        on_window_close: Called when a window has expired.
        everywhere: Whether agents of every partition read every key.
    """

    name: str
    default: Callable[[], Any] | None = None
    value_type: Any = None
    key_type: Any = None
    sets: bool = False
    windows: Windows | Sessions | None = None
    expires: int | None = None
    merge: Callable[[Any, Any], Any] = operator.add
    key_index: bool = False
    on_window_close: WindowClose | None = None
    everywhere: bool = False

    @property
    def summed(self) -> bool:
        """Whether overlapping windows can share what is added: whole numbers, kept by pane."""
        if self.sets or not isinstance(self.windows, Windows) or self.default is None:
            return False
        return self.windows.panes_per_window > 1 and type(self.default()) is int

    @property
    def span(self) -> int:
        """How many windows (of sessions: how long a stretch of ends) are stored together."""
        if self.windows is None:
            return 1
        if isinstance(self.windows, Sessions):
            gap = self.windows.gap
            return gap if self.expires is None else max(1, (gap + self.expires) // SEGMENTS)
        if self.expires is None:
            return UNBOUNDED_SPAN
        live = (self.windows.size + self.expires) // self.windows.slide
        return max(1, -(-live // SEGMENTS))

    def to_dict(self) -> dict[str, Any]:
        """The table as plain JSON; a default or a type that isn't plain isn't in it."""
        default = None
        if self.default is not None:
            with suppress(OptionError):
                default = packed.dumps(self.default())
        kinds = {name: getattr(self, name) for name in ("key_type", "value_type")}
        named = {name: kind.__name__ for name, kind in kinds.items() if kind in PLAIN.values()}
        windows = None if self.windows is None else self.windows.to_dict()
        own = {"windows": windows, "sets": self.sets, "summed": self.summed}
        return {**own, "default": default, "expires": self.expires, **named}

    @classmethod
    def read(
        cls,
        name: str,
        stored: Mapping[str, Any],
        default: Callable[[], Any] | None = None,
        value_type: Any = None,
    ) -> Self:
        """A table out of its part of a manifest.

        Args:
            name: Its name.
            stored: What ``tables_of`` gives.
            default: Makes the value of a key that has none, where the state doesn't say.
            value_type: What values are, where it isn't plain.
        """
        try:
            spec = stored["spec"]
            text, windows = spec["default"], spec["windows"]
            return cls(
                name,
                default or (None if text is None else lambda: packed.loads(text)),
                value_type or PLAIN.get(spec.get("value_type", "")),
                PLAIN.get(spec.get("key_type", "")),
                spec["sets"],
                None if windows is None else KINDS.read(windows),  # type: ignore[arg-type]
                spec["expires"],
                key_index=True,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateCorruptedError(f"what the state says of {name!r} can't be read") from error

    def check_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse state that another table of this name wrote."""
        lines = differences(facts(stored), facts(self.to_dict()))
        if lines:
            raise SpecChangedError(
                f"the table {self.name!r} was written by another definition ({'; '.join(lines)}); "
                "go back to it, or give the table another name"
            )

    def check_sessions(self) -> None:
        """Refuse sessions whose values can't be merged."""
        if self.sets or self.merge is not operator.add or self.default is None:
            return
        value = self.default()
        try:
            self.merge(value, value)
        except TypeError as error:
            hint = "say how: session(gap, merge=function of two values)"
            kind = type(value).__name__
            problem = f"gives values of type {kind}, and + doesn't join two of those"
            raise OptionError("default", self.default, problem, hint) from error

    def __str__(self) -> str:
        kind = "no windows" if self.windows is None else str(self.windows)
        kept = "kept indefinitely" if self.expires is None else f"kept for {phrase(self.expires)}"
        return f"{self.name}: {kind}" + ("" if self.windows is None else f", {kept}")


def facts(stored: Mapping[str, Any]) -> dict[str, Fact]:
    """What stored values depend on, by name."""
    windows = None if stored["windows"] is None else KINDS.read(stored["windows"])
    found = {
        "windows": Fact(windows, "whole table" if windows is None else placed(windows)),
        "values": Fact(stored["sets"], "sets" if stored["sets"] else "values"),
    }
    if isinstance(windows, Windows):
        found["kept by"] = Fact(stored["summed"], "pane" if stored["summed"] else "window")
    return found


def window_range(start: int, end: int) -> WindowRange:
    """A window as users see it, out of microseconds."""
    return WindowRange(seconds(start), seconds(end))
