"""What a shard's state says of one key around one time, read without changing anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.buckets import owners
from muntin.engine.codec import decode
from muntin.engine.paned import FIRED, LATE
from muntin.engine.sessions import UNTOLD
from muntin.model.errors import OptionError
from muntin.model.facts import Facts, SessionSeen, WindowSeen
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding

_TYPES: dict[str, tuple[pl.DataType, Callable[[str], Any]]] = {
    "String": (pl.String(), str),
    "Boolean": (pl.Boolean(), lambda text: text.lower() in ("true", "1")),
    **{f"Int{n}": (getattr(pl, f"Int{n}")(), int) for n in (8, 16, 32, 64)},
}
Blobs = Mapping[int, bytes]
"""A shard's blobs by number; only those that ``wanted`` names are needed."""


def key_of(facts: Facts, given: Sequence[str]) -> pl.DataFrame:
    """A key that was given as text, in the types of its columns: one row.

    Raises:
        OptionError: When it isn't one of this query.
    """
    if len(given) != len(facts.keys):
        cure = f"give --key once for each of {', '.join(facts.keys) or 'no columns'}"
        raise OptionError("--key", ", ".join(given), f"isn't {len(facts.keys)} values", cure)
    held: list[pl.Series] = []
    for place, (name, text) in enumerate(zip(facts.keys, given, strict=True)):
        known = _TYPES.get(facts.types.get(name, ""))
        if known is None:
            cure = "this command finds strings, whole numbers and booleans"
            raise OptionError("--key", text, f"has type {facts.types.get(name)}", cure)
        try:
            held.append(pl.Series(f"k{place}", [known[1](text)], dtype=known[0]))
        except (ValueError, OverflowError, TypeError) as error:
            raise OptionError("--key", text, f"isn't a {facts.types[name]}", "mend it") from error
    return pl.DataFrame(held) if held else pl.DataFrame({"__one": [0]})


def bucket_of(facts: Facts, key: pl.DataFrame) -> int:
    """Which shard owns a key."""
    return int(owners(key, [f"k{i}" for i in range(len(facts.keys))], facts.buckets)[0])


def wanted(facts: Facts, tables: Mapping[str, Any], at: int) -> dict[str, list[int]]:
    """The numbers of the blobs that tell of a time, by table.

    Args:
        facts: The query.
        tables: The tables of a manifest.
        at: The time.
    """
    if isinstance(facts.windows, Sessions):
        return {"sessions": [run[0] for run in tables.get("sessions") or []]}
    low, high = _reach(facts, at)
    windows = facts.windows
    bounds = {"cells": (windows.first_pane(low), windows.last_pane(high))}
    bounds |= dict.fromkeys(("marks", "early", "late"), (low, high))
    found: dict[str, list[int]] = {}
    for name, (first, last) in bounds.items():
        runs = [run for segment in (tables.get(name) or {}).values() for run in segment]
        found[name] = [run[0] for run in runs if run[3] >= first and run[2] <= last]
    return found


def _reach(facts: Facts, at: int) -> tuple[int, int]:
    """The first and the last window that hold a time."""
    windows = facts.windows
    assert not isinstance(windows, Sessions)
    if isinstance(windows, Sliding):
        return at - windows.size, at - windows.size
    pane = windows.pane_of(at)
    return windows.first_window(pane), windows.last_window(pane)


def windows_seen(
    facts: Facts, numbers: Mapping[str, list[int]], blobs: Blobs, key: pl.DataFrame, at: int
) -> list[WindowSeen]:
    """The windows of a key that hold a time, oldest first.

    Args:
        facts: The query.
        numbers: What ``wanted`` gave.
        blobs: Those blobs.
        key: What ``key_of`` gave.
        at: The time.
    """
    windows = facts.windows
    assert not isinstance(windows, Sessions)
    low, high = _reach(facts, at)
    rows = {
        name: _of_key([decode(blobs[number]) for number in found], facts, key)
        for name, found in numbers.items()
    }
    found = []
    for number in range(low, high + 1):
        first, last = windows.first_pane(number), windows.last_pane(number)
        if isinstance(windows, Sliding):
            first += 1  # The place just before a window makes it, and isn't in it.
        mine = {n: _within(rows[n], columns.WINDOW, number, number) for n in rows if n != "cells"}
        found.append(
            WindowSeen(
                windows.start(number),
                windows.end(number),
                number,
                _sum(_within(rows["cells"], columns.PANE, first, last), columns.MESSAGES),
                _sum(mine["marks"], FIRED),
                _sum(mine["marks"], LATE),
                _sum(mine["early"], columns.MESSAGES),
                _sum(mine["late"], columns.MESSAGES),
            )
        )
    return found


def sessions_seen(
    facts: Facts, numbers: Mapping[str, list[int]], blobs: Blobs, key: pl.DataFrame
) -> list[SessionSeen]:
    """The sessions of a key that the state holds, oldest first.

    Args:
        facts: The query.
        numbers: What ``wanted`` gave.
        blobs: Those blobs.
        key: What ``key_of`` gave.
    """
    frames = [decode(blobs[number]) for number in numbers["sessions"]]
    rows = _of_key(frames, facts, key)
    if not len(rows):
        return []
    # Of several versions of a session the last counts; one without messages has vanished.
    newest = rows.unique(columns.FIRST, keep="last", maintain_order=True)
    newest = newest.filter(pl.col(columns.MESSAGES) > 0).sort(columns.FIRST)
    names = (columns.FIRST, columns.LAST, columns.MESSAGES, FIRED, UNTOLD)
    return [SessionSeen(*row) for row in newest.select(names).iter_rows()]


def _of_key(frames: Sequence[pl.DataFrame], facts: Facts, key: pl.DataFrame) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame()
    rows = pl.concat(frames, how="diagonal_relaxed")
    names = [f"k{i}" for i in range(len(facts.keys))]
    return rows.join(key, on=names, how="semi") if names else rows


def _within(rows: pl.DataFrame, axis: str, low: int, high: int) -> pl.DataFrame:
    return rows.filter(pl.col(axis).is_between(low, high)) if len(rows) else rows


def _sum(rows: pl.DataFrame, column: str) -> int:
    return int(rows[column].sum()) if len(rows) else 0
