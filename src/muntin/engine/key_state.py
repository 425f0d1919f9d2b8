"""Read-only access to a shard's state for one key around one time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.retention import ENDED, find_first_whole
from muntin.engine.sessions.combine import find_session_ends
from muntin.engine.sessions.cut_shard import select_newest
from muntin.engine.sessions.shard import FIRED_LATE, UNEMITTED
from muntin.engine.windows.by_count import HEAD
from muntin.engine.windows.paned import FIRED, LATE
from muntin.model.axis import parse_time
from muntin.model.errors import OptionError
from muntin.model.grouping_sets import GROUPING_ID
from muntin.model.kinds import Numbered
from muntin.model.seen import SessionSeen, WindowSeen
from muntin.model.spec import WindowSpec
from muntin.model.zones import list_zones
from muntin.state.frames import decode_frame
from muntin.state.hashing import assign_shards
from muntin.state.lookup import join_null_safe
from muntin.state.manifest import (
    Manifest,
    Reopened,
    Run,
    find_edges,
    list_overlapping_blobs,
    parse_manifest,
)

_TYPES: dict[str, tuple[pl.DataType, Callable[[str], Any]]] = {
    "String": (pl.String(), str),
    "Boolean": (pl.Boolean(), lambda text: text.lower() in ("true", "1")),
    **{f"Int{n}": (getattr(pl, f"Int{n}")(), int) for n in (8, 16, 32, 64)},
    **{
        str(kind): (kind, lambda text: parse_time("--key", text))
        for kind in (pl.Datetime("us"), pl.Datetime("us", "UTC"))
    },
}
# The text for a key that is NULL.
NULL = r"\N"
BlobBytes = Mapping[int, bytes]
"""A shard's blobs by number; only those that ``find_blobs`` returns are needed."""


def parse_key(names: Sequence[str], types: Mapping[str, str], texts: Sequence[str]) -> pl.DataFrame:
    r"""Convert a key from text to one row with the types of its columns.

    The text ``\N`` is NULL, as in the files of PostgreSQL and Hive.
    """
    if len(texts) != len(names):
        hint = f"give --key once for each of {', '.join(names) or 'no columns'}"
        problem = f"isn't {len(names)} values" if texts else "is missing"
        raise OptionError("--key", ", ".join(texts), problem, hint)
    values: list[pl.Series] = []
    for index, (name, text) in enumerate(zip(names, texts, strict=True)):
        parser = _TYPES.get(types.get(name, "Int64" if name == GROUPING_ID else ""))
        if parser is None:
            hint = "use a key of strings, integers, booleans or times"
            raise OptionError("--key", text, f"has type {types.get(name)}", hint)
        try:
            value = None if text == NULL else parser[1](text)
            values.append(pl.Series(f"k{index}", [value], dtype=parser[0]))
        except (ValueError, OverflowError, TypeError) as error:
            hint = f"write a value of type {types[name]}"
            raise OptionError("--key", text, f"isn't a {types[name]}", hint) from error
    return pl.DataFrame(values) if values else pl.DataFrame({"__one": [0]})


def find_shard(spec: WindowSpec, key: pl.DataFrame) -> int:
    """Return the shard that owns a key."""
    # A query without a key has an internal one, which all of its messages share.
    return int(assign_shards(key, key.columns, spec.shards or 1)[0])


def select_part(
    spec: WindowSpec, manifest: Manifest, key: pl.DataFrame
) -> tuple[WindowSpec, Manifest]:
    """Return the query and the manifest of a key's zone; those of all keys if they share one.

    Raises ``OptionError`` when the key has no known zone.
    """
    if spec.zone_column is None:
        return spec, manifest
    zone = key[f"k{spec.keys.index(spec.zone_column)}"][0]
    if zone not in list_zones():
        hint = f'give an IANA name as {spec.zone_column}, for example "Europe/Berlin"'
        raise OptionError("key", zone, "isn't a known time zone", hint)
    # A zone without a manifest has had no message.
    texts = dict(manifest.parts)
    part = parse_manifest(texts[zone]) if zone in texts else Manifest("windows")
    # A zone without messages is idle for some batches, while the watermark advances.
    part = replace(part, watermark=manifest.watermark, wall=manifest.wall)
    return spec.in_zone(zone), part


def find_blobs(
    spec: WindowSpec, tables: Mapping[str, Sequence[Run]], start: int | None, end: int | None
) -> dict[str, list[int]]:
    """Return the numbers of the blobs that cover a range of time, by table."""
    windows = spec.uniform_windows
    if not windows.is_numbered or windows.result_key is not None:
        name = "cells" if windows.is_numbered else "sessions"
        return {name: list_overlapping_blobs(tables.get(name, ()))}
    low, high = _find_window_range(windows, start, end)
    first = None if low is None else windows.first_pane(low)
    last = None if high is None else windows.last_pane(high)
    bounds = {"cells": (first, last)}
    bounds |= dict.fromkeys(("marks", "early", "late"), (low, high))
    return {n: list_overlapping_blobs(tables.get(n, ()), *between) for n, between in bounds.items()}


def _find_window_range(
    windows: Numbered, start: int | None, end: int | None
) -> tuple[int | None, int | None]:
    """Return the first and the last window that overlap a range of time."""
    low = None if start is None else windows.windows_at(start)[0]
    return low, None if end is None else windows.windows_at(end)[-1]


def read_windows(
    spec: WindowSpec,
    blobs_by_table: Mapping[str, list[int]],
    blobs: BlobBytes,
    key: pl.DataFrame,
    *,
    at: int | None = None,
    between: tuple[int | None, int | None] = (None, None),
) -> list[WindowSeen]:
    """Return the windows of a key, oldest first.

    Args:
        spec: The query.
        blobs_by_table: The result of ``find_blobs``.
        blobs: These blobs.
        key: The key's row.
        at: Return the windows of a message at this position, even those without messages.
        between: Without ``at``, return the windows in the state that overlap this range of time.
    """
    windows = spec.uniform_windows
    assert windows.is_numbered
    rows = {
        table: _select_key([decode_frame(blobs[number]) for number in numbers], spec, key)
        for table, numbers in blobs_by_table.items()
    }
    numbers = (
        windows.windows_of([windows.pane_of(at)])
        if at is not None
        else _list_stored(windows, rows, *_find_window_range(windows, *between))
    )
    windows_seen = []
    for number in sorted(numbers):
        first, last = windows.first_inside(number), windows.last_pane(number)
        rows_of_window = {
            n: _select_range(rows[n], columns.WINDOW, number, number) for n in rows if n != "cells"
        }
        windows_seen.append(
            WindowSeen(
                windows.start(number),
                windows.end(number),
                number,
                _sum(_select_range(rows["cells"], columns.PANE, first, last), columns.MESSAGES),
                _sum(rows_of_window["marks"], FIRED),
                _sum(rows_of_window["marks"], LATE),
                _sum(rows_of_window["early"], columns.MESSAGES),
                _sum(rows_of_window["late"], columns.MESSAGES),
            )
        )
    return windows_seen


def read_look_backs(
    spec: WindowSpec,
    blobs_by_table: Mapping[str, list[int]],
    blobs: BlobBytes,
    key: pl.DataFrame,
    watermark: int | None,
) -> list[WindowSeen]:
    """Return the newest windows of a key, one for each look-back, the longest first."""
    windows = spec.uniform_windows
    assert windows.is_numbered
    if watermark is None:
        return []
    last = windows.last_ended(watermark)
    rows = _select_key(
        [decode_frame(blobs[number]) for number in blobs_by_table["cells"]], spec, key
    )
    seen = []
    for window in range(last - len(windows.labels) + 1, last + 1):
        panes = _select_range(
            rows, columns.PANE, windows.first_inside(window), windows.last_pane(window)
        )
        messages = _sum(panes, columns.MESSAGES)
        bounds = windows.start(window), windows.end(window)
        seen.append(WindowSeen(*bounds, window, messages, 0, 0, 0, 0))
    return seen


def _list_stored(
    windows: Numbered, rows: Mapping[str, pl.DataFrame], low: int | None, high: int | None
) -> list[int]:
    """Return the windows in the state that are in a range."""
    cells = rows["cells"]
    panes = cells[columns.PANE].unique().sort().to_list() if len(cells) else []
    numbers = set(windows.windows_of(panes))
    for name in ("marks", "early", "late"):
        numbers.update(rows[name][columns.WINDOW].unique() if len(rows[name]) else ())
    return [n for n in numbers if (low is None or n >= low) and (high is None or n <= high)]


def read_sessions(
    spec: WindowSpec, blobs_by_table: Mapping[str, list[int]], blobs: BlobBytes, key: pl.DataFrame
) -> list[SessionSeen]:
    """Return the sessions of a key in the state, oldest first."""
    frames = [decode_frame(blobs[number]) for number in blobs_by_table["sessions"]]
    rows = _select_key(frames, spec, key)
    if not len(rows):
        return []
    # The last version of a session counts; one without messages has vanished.
    windows = spec.windows
    assert not windows.is_numbered
    if windows.is_cut:
        newest = select_newest(rows, [columns.FIRST])
    else:
        newest = rows.unique(columns.FIRST, keep="last", maintain_order=True)
    newest = newest.filter(pl.col(columns.MESSAGES) > 0).sort(columns.FIRST)
    newest = newest.with_columns(find_session_ends(newest, windows).alias(columns.END))
    names = [columns.FIRST, columns.LAST, columns.END, columns.MESSAGES, FIRED, UNEMITTED]
    if FIRED_LATE in newest.columns:
        newest = newest.with_columns(pl.col(FIRED_LATE).fill_null(0))
        names.append(FIRED_LATE)
    return [SessionSeen(*row) for row in newest.select(names).iter_rows()]


def count_arrivals(spec: WindowSpec, blobs: Iterable[bytes], key: pl.DataFrame) -> int:
    """Return the number of messages of a key that arrived, for windows by arrival."""
    rows = _select_key(list(map(decode_frame, blobs)), spec, key)
    return int(rows[HEAD].max()) if len(rows) else 0  # type: ignore[arg-type]


def _select_key(
    frames: Sequence[pl.DataFrame], spec: WindowSpec, key: pl.DataFrame
) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame()
    rows = pl.concat(frames, how="diagonal_relaxed")
    names = [f"k{i}" for i in range(len(spec.state_keys))]
    return join_null_safe(rows, key, names, "semi") if names else rows


def _select_range(rows: pl.DataFrame, axis: str, low: int, high: int) -> pl.DataFrame:
    return rows.filter(pl.col(axis).is_between(low, high)) if len(rows) else rows


def _sum(rows: pl.DataFrame, column: str) -> int:
    return int(rows[column].sum()) if len(rows) else 0


KEY_WINDOWS = pl.Schema(
    {
        columns.WINDOW_START: pl.Int64(),
        columns.WINDOW_END: pl.Int64(),
        "messages": pl.Int64(),
        "fired": pl.Int64(),
        "late": pl.Int64(),
        "unemitted": pl.Int64(),
        "stage": pl.String(),
    }
)
"""The columns that ``list_key_windows`` returns."""


def list_key_windows(
    spec: WindowSpec,
    blobs_by_table: Mapping[str, list[int]],
    blobs: BlobBytes,
    key: pl.DataFrame,
    between: tuple[int | None, int | None],
    manifest: Manifest,
) -> pl.DataFrame:
    """Describe the windows or sessions of a key that overlap a range of time.

    Returns:
        The columns ``KEY_WINDOWS``, without windows that hold no messages and never emitted.
        Columns are null for expired windows, and for closed ones whose emissions the state has
        forgotten.
    """
    start, end = between
    rows: list[tuple[object, ...]] = []
    windows, watermark, extra = spec.uniform_windows, manifest.watermark, manifest.extra
    limit = extra.get("kept", {}).get("floor")
    first_whole = find_first_whole(spec, windows, watermark, extra.get("floor"), limit)
    edges = find_edges(watermark, spec.firing.grace, Reopened.read(extra))
    find_stage = partial(
        _find_stage, spec, edges=edges, first_whole=first_whole, ended=ENDED in extra
    )
    if not windows.is_numbered:
        for session in read_sessions(spec, blobs_by_table, blobs, key):
            if (start is None or session.end > start) and (end is None or session.first <= end):
                stage = find_stage(session.last)
                emitted = (session.messages, session.fired, None, session.unemitted)
                shown = _EXPIRED if stage == "expired" else emitted
                rows.append((session.first, session.end, *shown, stage))
    elif windows.result_key is not None:
        for seen in read_look_backs(spec, blobs_by_table, blobs, key, watermark):
            is_inside = (start is None or seen.end > start) and (end is None or seen.start <= end)
            if seen.messages and is_inside:
                rows.append((seen.start, seen.end, seen.messages, None, None, 0, "closed"))
    else:
        for seen in read_windows(spec, blobs_by_table, blobs, key, between=between):
            if seen.messages or seen.fired or seen.late:
                stage = find_stage(seen.number)
                rows.append((seen.start, seen.end, *_count_emissions(spec, seen, stage), stage))
    return pl.DataFrame(rows, schema=KEY_WINDOWS, orient="row")


# Rows left of an expired window may belong to other windows, or to an older version.
_EXPIRED = (None, None, None, 0)


def _count_emissions(spec: WindowSpec, seen: WindowSeen, stage: str) -> tuple[int | None, ...]:
    """Return the numbers of messages, emissions, late and waiting messages; null if unknown."""
    if stage == "expired":
        return _EXPIRED
    if stage == "current":
        return seen.messages, seen.fired, seen.late, seen.unemitted_early
    if stage == "closed":
        # The state drops the number of a window's emissions when it closes.
        fires_once = spec.firing.early is None and not spec.firing.grace
        return seen.messages, 1 if fires_once else None, 0 if not spec.firing.grace else None, 0
    # The state of windows on a grid has no full emissions: a window was emitted in full if it had
    # messages that weren't late when it ended.
    fired_in_full = not spec.windows.moves and seen.messages > seen.late
    return seen.messages, seen.fired + fired_in_full, seen.late, seen.unemitted_late


def _find_stage(
    spec: WindowSpec,
    position: int,
    *,
    edges: tuple[int, int] | None,
    first_whole: int | None,
    ended: bool,
) -> str:
    """Return the stage of a window: ``current``, ``past``, ``closed`` or ``expired``.

    ``position`` is the window's number, or a session's last position. ``edges`` are the positions
    by which windows have closed and ended, ``first_whole`` the first window with all messages.
    """
    if first_whole is not None and position < first_whole:
        return "expired"
    if ended:
        return "closed"
    windows = spec.uniform_windows
    if edges is None or position > windows.last_ended(edges[1]):
        return "current"
    return "past" if position > windows.last_ended(edges[0]) else "closed"
