"""Why a key of a table has a value, or none, or a write is rejected: its clock and its entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muntin.model.axis import moment, phrase
from muntin.model.sessions import Sessions
from muntin.model.windows import Windows

EntrySeen = tuple[tuple[int, int] | None, str]
"""The window of an entry, if its table has windows, and its value in words."""


@dataclass(frozen=True)
class TableSeen:
    """A table of agents, as the state has it in one key's partition.

    Attributes:
        words: What it is.
        windows: Its windows, if it has any.
        expires: How long after its end a window is kept; ``None``: indefinitely.
        watermark: Up to where its clock has come; ``None`` before the first write.
        entries: Those of the key.
    """

    words: str
    windows: Windows | Sessions | None
    expires: int | None
    watermark: int | None
    entries: Sequence[EntrySeen]


def of_table(table: TableSeen, at: int) -> Iterator[str]:
    """What is true of a key's entries at a time, and of a write then."""
    yield f"table      {table.words}"
    windows = table.windows
    if windows is None:
        values = [value for _, value in table.entries]
        yield f"value      {', '.join(values) or 'none: it was never written, or was deleted'}"
        yield "a write at any time would be taken: without windows nothing expires"
        return
    clock = "none: nothing was written yet" if table.watermark is None else moment(table.watermark)
    yield f"clock      {clock}"
    near = windows.gap if isinstance(windows, Sessions) else 0
    there = [(w, v) for w, v in table.entries if w is not None and w[0] - near <= at < w[1]]
    for (start, end), value in there:
        kept = "indefinitely"
        if table.expires is not None:
            kept = f"until the clock reaches {moment(end + table.expires)}"
        yield f"window     {moment(start)} to {moment(end)}"
        yield f"           holds {value}; it is kept {kept}"
    if not there:
        known = f"{len(table.entries):,} others of this key are kept"
        yield f"window     none of this key around {moment(at)}: it was never written, or has gone"
        yield f"           {known}"
    yield _write(table, windows, at, [w for w, _ in there if w is not None])


def _write(
    table: TableSeen, windows: Windows | Sessions, at: int, near: Sequence[tuple[int, int]]
) -> str:
    """What becomes of a write."""
    here = f"a write at {moment(at)}"
    if table.expires is None or table.watermark is None:
        return f"{here} would be taken now"
    reached = windows.ended(table.watermark - table.expires)
    if isinstance(windows, Sessions):
        # It is judged by the whole session that it would join.
        last = max([at, *(end - windows.gap for _, end in near)])
        opened, many = last > reached, "its session"
        end = last + windows.reach
    else:
        pane = windows.pane_of(at)
        numbers = range(windows.first_window(pane), windows.last_window(pane) + 1)
        taking = [number for number in numbers if number > reached]
        opened, end = bool(taking), windows.end(numbers[-1])
        many = f"{len(taking)} of its {len(numbers)} windows" if len(numbers) > 1 else "its window"
    if opened:
        return f"{here} would be taken now, by {many}"
    expired = moment(end + table.expires)
    return (
        f"{here} is rejected as late: its last window expired when the clock passed {expired} "
        f"(kept {phrase(table.expires)} after its end); a larger expires= would take it"
    )
