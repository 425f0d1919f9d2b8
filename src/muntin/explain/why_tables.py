"""Explains why a key of a table has a value, or none, or why a write is rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muntin.model.axis import format_duration, format_time
from muntin.model.sessions import Sessions
from muntin.model.windows import Windows

EntrySeen = tuple[tuple[int, int] | None, str]
"""The window of an entry, if its table has windows, and its value as text."""


@dataclass(frozen=True)
class TableSeen:
    """The state of a table of agents in one key's partition.

    Attributes:
        words: A description of the table.
        expires: How long after its end a window is kept; ``None`` for forever.
        watermark: The table's watermark; ``None`` before the first write.
    """

    words: str
    windows: Windows | Sessions | None
    expires: int | None
    watermark: int | None
    entries: Sequence[EntrySeen]


def explain_table(table: TableSeen, at: int) -> Iterator[str]:
    """Explain a key's entries at a time, and a write at that time."""
    yield f"table      {table.words}"
    windows = table.windows
    if windows is None:
        values = [value for _, value in table.entries]
        yield f"value      {', '.join(values) or 'none: it was never written, or was deleted'}"
        yield "a write at any time would be taken: without windows nothing expires"
        return
    clock = (
        "none: nothing was written yet" if table.watermark is None else format_time(table.watermark)
    )
    yield f"clock      {clock}"
    near = 0 if windows.is_numbered else windows.gap
    entries_at_time = [
        (w, v) for w, v in table.entries if w is not None and w[0] - near <= at < w[1]
    ]
    for (start, end), value in entries_at_time:
        until = "indefinitely"
        if table.expires is not None:
            until = f"until the clock reaches {format_time(end + table.expires)}"
        yield f"window     {format_time(start)} to {format_time(end)}"
        yield f"           holds {value}; it is kept {until}"
    if not entries_at_time:
        others = f"{len(table.entries):,} others of this key are kept"
        around = format_time(at)
        yield f"window     none of this key around {around}: it was never written, or has gone"
        yield f"           {others}"
    yield _explain_write(table, windows, at, [w for w, _ in entries_at_time if w is not None])


def _explain_write(
    table: TableSeen, windows: Windows | Sessions, at: int, near: Sequence[tuple[int, int]]
) -> str:
    here = f"a write at {format_time(at)}"
    if table.expires is None or table.watermark is None:
        return f"{here} would be taken now"
    last_expired = windows.last_ended(table.watermark - table.expires)
    if not windows.is_numbered:
        # The whole session that it would join decides.
        last = max([at, *(end - windows.gap for _, end in near)])
        is_open, many = last > last_expired, "its session"
        end = last + windows.reach
    else:
        numbers = windows.windows_at(at)
        taking = [number for number in numbers if number > last_expired]
        is_open, end = bool(taking), windows.end(numbers[-1])
        many = f"{len(taking)} of its {len(numbers)} windows" if len(numbers) > 1 else "its window"
    if is_open:
        return f"{here} would be taken now, by {many}"
    expired = format_time(end + table.expires)
    return (
        f"{here} is rejected as late: its last window expired when the clock passed {expired} "
        f"(kept {format_duration(table.expires)} after its end); a larger expires= would take it"
    )
