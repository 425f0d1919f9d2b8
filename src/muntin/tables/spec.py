"""The definition of a table, without its entries."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, NamedTuple, Self

from muntin.model.axis import format_duration
from muntin.model.bounds import format_windows
from muntin.model.errors import OptionError, SpecChangedError, StateCorruptedError
from muntin.model.facts import Fact, compare_facts
from muntin.model.json_dataclass import load_value
from muntin.model.kinds import Kind
from muntin.model.sessions import Sessions
from muntin.model.windows import Windows
from muntin.tables import packed
from muntin.tables.time_values import to_seconds

# The retention is cut into this many segments, which are stored and dropped as a whole.
SEGMENT_COUNT = 8
# Windows per segment for windows that are kept forever.
UNBOUNDED_SPAN = 256
# Types that are stored by name.
PLAIN_TYPES: dict[str, type] = {
    kind.__name__: kind for kind in (bool, int, float, str, bytes, datetime, date)
}


class WindowRange(NamedTuple):
    """A window in callbacks and views: ``[start, end)`` in seconds since the epoch.

    Faust shows ``end - 0.1`` as the end.
    """

    start: float
    end: float


WindowClose = Callable[[tuple[Any, WindowRange], Any], Any]


@dataclass(frozen=True)
class TableSpec:
    """The definition of a table.

    Attributes:
        name: The table's name, unique in its app.
        default: Creates the value of a key that has none; ``None``: such a key is an error.
        value_type: A dataclass, pydantic model or plain type of the values, if declared.
        key_type: A plain type of the keys, if declared.
        sets: True if a value is a set, stored member by member.
        expires: How long after its end a window is kept, microseconds; ``None`` for forever.
        merge: Merges the values of sessions that grow together.
        key_index: True if all keys may be iterated over.
        on_window_close: Called when a window has expired.
        everywhere: True if agents of every partition read every key.
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
    def shares_pane_sums(self) -> bool:
        """True if overlapping windows share sums of integers, which are stored by pane."""
        if self.sets or self.windows is None or self.default is None:
            return False
        return self.windows.overlap > 1 and type(self.default()) is int

    @property
    def span(self) -> int:
        """Number of windows (for sessions: the length of a stretch of ends) stored together."""
        windows = self.windows
        if windows is None:
            return 1
        if not windows.is_numbered:
            gap = windows.gap
            return gap if self.expires is None else max(1, (gap + self.expires) // SEGMENT_COUNT)
        if self.expires is None:
            return UNBOUNDED_SPAN
        live = (windows.size + self.expires) // windows.slide
        return max(1, -(-live // SEGMENT_COUNT))

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as plain JSON, without a default or types that aren't plain."""
        default = None
        if self.default is not None:
            with suppress(OptionError):
                default = packed.write_json(self.default())
        kinds = {name: getattr(self, name) for name in ("key_type", "value_type")}
        named = {
            name: kind.__name__ for name, kind in kinds.items() if kind in PLAIN_TYPES.values()
        }
        windows = None if self.windows is None else self.windows.to_dict()
        own = {"windows": windows, "sets": self.sets, "summed": self.shares_pane_sums}
        return {**own, "default": default, "expires": self.expires, **named}

    @classmethod
    def from_manifest(
        cls,
        name: str,
        stored: Mapping[str, Any],
        default: Callable[[], Any] | None = None,
        value_type: Any = None,
    ) -> Self:
        """Create a definition from an entry of ``read_tables``.

        ``default`` creates the value of a key that has none, if the state doesn't define it, and
        ``value_type`` is the type of the values, unless it is a plain one.

        Raises:
            StateCorruptedError: When the entry can't be read.
        """
        try:
            spec = stored["spec"]
            text, windows = spec["default"], spec["windows"]
            return cls(
                name,
                default or (None if text is None else lambda: packed.read_json(text)),
                value_type or PLAIN_TYPES.get(spec.get("value_type", "")),
                PLAIN_TYPES.get(spec.get("key_type", "")),
                spec["sets"],
                load_value(Kind | None, windows),
                spec["expires"],
                key_index=True,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateCorruptedError(f"what the state says of {name!r} can't be read") from error

    def check_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse state that another definition of this table wrote.

        Raises:
            SpecChangedError: When the definitions differ.
        """
        lines = compare_facts(list_facts(stored), list_facts(self.to_dict()))
        if lines:
            raise SpecChangedError(
                f"the table {self.name!r} was written by another definition ({'; '.join(lines)}); "
                "go back to it, or give the table another name"
            )

    def check_sessions(self) -> None:
        """Refuse sessions whose values can't be merged.

        Raises:
            OptionError: When ``+`` doesn't merge two default values, and ``merge`` isn't given.
        """
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
        retention = (
            "kept indefinitely"
            if self.expires is None
            else f"kept for {format_duration(self.expires)}"
        )
        return f"{self.name}: {kind}" + ("" if self.windows is None else f", {retention}")


def list_facts(stored: Mapping[str, Any]) -> dict[str, Fact]:
    """List the facts of a definition that stored values depend on, by name."""
    windows = load_value(Kind | None, stored["windows"])
    listed = {
        "windows": Fact(windows, "whole table" if windows is None else format_windows(windows)),
        "values": Fact(stored["sets"], "sets" if stored["sets"] else "values"),
    }
    if windows is not None and windows.is_numbered:
        listed["kept by"] = Fact(stored["summed"], "pane" if stored["summed"] else "window")
    return listed


def to_window_range(start: int, end: int) -> WindowRange:
    """Convert a window from microseconds to seconds."""
    return WindowRange(to_seconds(start), to_seconds(end))
