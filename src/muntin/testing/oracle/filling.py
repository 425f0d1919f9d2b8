"""Windows without messages: the ones that exist, when they emit, and their values."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from math import floor
from typing import Any

from muntin.model.fill import LINEAR, PREVIOUS, read_constant
from muntin.model.kinds import Numbered
from muntin.model.spec import WindowSpec
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.placing import WindowsByKey
from muntin.testing.oracle.window import Key, OracleWindow

Evaluate = Callable[[OracleWindow], dict[str, Any]]
"""Computes the aggregates of a window with messages."""


def create_empty_windows(spec: WindowSpec, windows: WindowsByKey) -> None:
    """Create empty windows after those with messages, as far as the query fills them."""
    if spec.firing.fill is None:
        return
    with_messages = [window for window in windows.values() if window.messages]
    for window in sorted(with_messages, key=lambda window: window.end):
        kind = get_windows_of_key(spec, window.key)
        for k in range(kind.last_ended(window.end) + 1, last_filled(spec, window) + 1):
            start, end = kind.start(k), kind.end(k)
            if start == end:  # The time zone skipped this day.
                continue
            empty = OracleWindow(window.key, start, end, over=end)
            empty = windows.setdefault((start, end, window.key), empty)
            if empty.source is None or empty.source.end <= window.end:
                empty.source = window
    if spec.firing.fill.waits:
        _find_following(spec, windows, with_messages)


def _find_following(
    spec: WindowSpec, windows: WindowsByKey, with_messages: Iterable[OracleWindow]
) -> None:
    """Set the next window with messages of each window that waits for it."""
    later: dict[Key, list[OracleWindow]] = defaultdict(list)
    for window in sorted(with_messages, key=lambda window: window.end):
        later[window.key].append(window)
    for window in windows.values():
        if window.waits:
            assert window.source is not None
            after = later[window.key]
            index = bisect_right(after, window.end, key=lambda other: other.end)
            following = after[index] if index < len(after) else None
            if following is not None:
                kind = get_windows_of_key(spec, window.key)
                farthest = kind.end(last_filled(spec, window.source) + 1)
                following = following if following.end <= farthest else None
            window.following = following


def last_filled(spec: WindowSpec, source: OracleWindow) -> int:
    """Return the number of the last window that is filled after one with messages."""
    fill, kind = spec.firing.fill, get_windows_of_key(spec, source.key)
    assert fill is not None
    return kind.last_ended(source.end + fill.up_to)


def get_windows_of_key(spec: WindowSpec, key: Key) -> Numbered:
    """Return the windows of a key, which may have its own zone."""
    column = spec.zone_column
    windows = spec.windows.in_zone("UTC" if column is None else key[spec.keys.index(column)])
    assert windows.is_numbered
    return windows


def is_decided(spec: WindowSpec, window: OracleWindow, after: Watermarks) -> bool:
    """Return whether an empty window between others emits, since the next one has closed."""
    if window.start > after.latest and after.final:
        return False
    if window.following is None:
        assert window.source is not None
        kind = get_windows_of_key(spec, window.key)
        over = kind.end(last_filled(spec, window.source) + 1)
    else:
        over = window.following.over
    return over + spec.firing.grace <= after.of(window.key)


def find_corrected(
    emitted: Iterable[tuple[OracleWindow, str]], windows: Iterable[OracleWindow]
) -> Iterator[OracleWindow]:
    """Yield the empty windows that have emitted the values of windows which emit late."""
    late = {id(window) for window, emission in emitted if emission == "late" and window.messages}
    for window in windows:
        if not window.messages and window.revision and id(window.source) in late:
            yield window


def fill_values(spec: WindowSpec, window: OracleWindow, values: Evaluate) -> dict[str, Any]:
    """Return the values of a window without messages."""
    fill = spec.firing.fill
    assert fill is not None
    assert window.source is not None
    left: dict[str, Any] = values(window.source) if fill.follows else {}
    following = window.following
    right: dict[str, Any] = {} if following is None else values(following)
    filled = {}
    for name, agg in spec.aggregates.items():
        way = fill.way_of(name)
        if way == PREVIOUS:
            filled[name] = left[name]
        elif way == LINEAR:
            part = Fraction(0)
            if following is not None:
                length = following.end - window.source.end
                part = Fraction(window.end - window.source.end, length)
            filled[name] = _draw_line(left[name], right.get(name), part)
        elif way in ("zero", "null"):
            filled[name] = agg.entry.fill_without_values(way)
        else:
            filled[name] = read_constant(way)
    return filled


def _draw_line(left: Any, right: Any, part: Fraction) -> Any:
    if left is None or right is None:
        return None
    if isinstance(left, float):
        return left + (right - left) * float(part)
    return floor(left + (right - left) * part + Fraction(1, 2))
