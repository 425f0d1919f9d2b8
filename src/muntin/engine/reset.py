"""Sets back the watermark of an operator, in the manifests of its shards.

The watermark and the clocks that lie after a time become that time. Windows that had closed, and
that began before the time, stay closed, since their messages are gone. Those that began before it
and still take messages go on with late revisions. All others are open again, with the messages that
they still have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from muntin.engine import columns
from muntin.engine.retention import ENDED
from muntin.engine.windows.overlap import copy_to_windows
from muntin.model.errors import OptionError
from muntin.model.kinds import is_paned
from muntin.model.recall import load_spec
from muntin.model.spec import WindowSpec
from muntin.state.frames import decode_frame
from muntin.state.manifest import Manifest, Reopened, find_edges

_MARKS, _CLOCKS, _FLOOR = "marks", "clocks", "floor"
# Greatest number of emissions of a window in a batch.
_PER_BATCH = 2


class ClockChange(NamedTuple):
    """A watermark (its name ends with ``watermark``) or a clock that is set back, microseconds."""

    name: str
    before: int
    after: int


def check_resettable(manifest: Manifest, folder: str) -> None:
    """Refuse an operator whose watermark isn't a time, or whose input has ended."""
    if manifest.kind not in ("windows", "join"):
        problem, hint = f"is a checkpoint of {manifest.kind}", "give one of windows or of a join"
        raise OptionError("CHECKPOINT", folder, problem, hint)
    spec = load_spec(manifest.spec)
    if spec.axis == "rows" or (isinstance(spec, WindowSpec) and spec.by_arrival):
        hint = "give one of windows in time"
        raise OptionError("CHECKPOINT", folder, "has windows of rows", hint)
    if isinstance(spec, WindowSpec) and not _can_reopen(spec):
        fill = "" if spec.firing.fill is None else f", filled with {spec.firing.fill}"
        problem = f"has windows that can't be opened again ({spec.windows}{fill})"
        hint = "read the sources again with a new checkpoint"
        raise OptionError("CHECKPOINT", folder, problem, hint)
    if ENDED in manifest.extra:
        hint = "read the input again with a new checkpoint"
        raise OptionError("CHECKPOINT", folder, "has read all of its input", hint)


def _can_reopen(spec: WindowSpec) -> bool:
    """Return whether closed windows of a kind may take messages again."""
    # Filled lines aren't corrected.
    fill = spec.firing.fill
    return spec.windows.can_reopen and (fill is None or not fill.waits)


def list_changes(manifest: Manifest, to: int) -> Iterator[ClockChange]:
    """Yield the watermarks and the clocks of an operator that lie after a time."""
    marks = {f"{side} watermark": mark for side, mark in manifest.extra.get(_MARKS, {}).items()}
    for name, mark in (marks or {"watermark": manifest.watermark}).items():
        if mark is not None and mark > to:
            yield ClockChange(name, mark, to)
    for side, clocks in manifest.extra.get(_CLOCKS, {}).items():
        for name, (time, *_) in clocks.items():
            if time is not None and time > to:
                yield ClockChange(f"{side} {name}".strip(), time, to)


def find_revision(manifests: Sequence[Manifest], batch: int) -> int:
    """Return a number that is greater than all revisions emitted until a batch."""
    stored = (Reopened.read(one.extra) for one in manifests)
    before = max((one.revision for one in stored if one is not None), default=0)
    return before + _PER_BATCH * (batch + 1)


def reset_manifest(manifest: Manifest, to: int, revision: int) -> Manifest:
    """Return a shard's manifest with its watermark and clocks set back to a time."""
    extra = deepcopy(manifest.extra)
    for clocks in extra.get(_CLOCKS, {}).values():
        for clock in clocks.values():
            clock[0] = _set_back(clock[0], to)
    if _MARKS in extra:
        extra[_MARKS] = {side: _set_back(mark, to) for side, mark in extra[_MARKS].items()}
    spec, watermark = load_spec(manifest.spec), manifest.watermark
    if isinstance(spec, WindowSpec) and watermark is not None and watermark > to:
        _reopen(spec, watermark, to, revision, extra)
    return replace(manifest, watermark=_set_back(watermark, to), extra=extra)


def _set_back(time: int | None, to: int) -> int | None:
    return None if time is None else min(time, to)


def _reopen(
    spec: WindowSpec, watermark: int, to: int, revision: int, extra: dict[str, Any]
) -> None:
    """Store the windows that stay closed, and those that have ended before."""
    windows, firing = spec.uniform_windows, spec.firing
    before = Reopened.read(extra)
    edges = find_edges(watermark, firing.grace, before)
    assert edges is not None
    first = windows.first_from(to)
    limit = windows.watermark_at_end(first - 1)
    until = watermark if before is None else max(watermark, before.before)
    Reopened(
        judged=min(limit, edges[0]) + firing.grace,
        ended=min(limit, edges[1]),
        before=until,
        revision=revision,
    ).write(extra)
    # A reader of the state must not take what is left of expired windows for whole ones.
    floor = min(first, windows.last_ended(watermark - firing.retention) + 1)
    extra[_FLOOR] = max(floor, extra.get(_FLOOR, floor))


class WholeFrom(NamedTuple):
    """The start from which the windows of an operator are whole.

    ``start`` is the first whole window's, microseconds; in a join, the time from which messages
    find all their partners. ``next`` is the time from which results are whole for their reader.
    """

    start: int
    next: int
    joins: bool


def find_whole_start(manifest: Manifest, to: int) -> WholeFrom:
    """Return the start from which windows have all messages, if input is whole from ``to`` on."""
    spec = load_spec(manifest.spec)
    if not isinstance(spec, WindowSpec):
        return WholeFrom(to, to, True)
    windows = spec.uniform_windows
    start = windows.first_whole_start(to)
    return WholeFrom(start, start + windows.length, False)


def count_open_again(
    manifest: Manifest, to: int, read: Callable[[Sequence[int]], Sequence[bytes]]
) -> int:
    """Count the windows of a shard that had ended, have messages, and will emit in full again.

    The manifest is that before the reset. Sliding windows are counted by the times of messages.
    """
    spec, watermark = load_spec(manifest.spec), manifest.watermark
    if not isinstance(spec, WindowSpec) or watermark is None or watermark <= to:
        return 0
    windows = spec.uniform_windows
    runs = manifest.tables.get("cells" if windows.is_numbered else "sessions", ())
    frames = [decode_frame(blob) for blob in read([n for run in runs for n in run.blobs])]
    if not frames:
        return 0
    rows = pl.concat(frames, how="diagonal_relaxed")
    low, high = windows.first_from(to), windows.last_ended(watermark)
    keys = [name for name in rows.columns if name[0] == "k" and name[1:].isdigit()]
    if not windows.is_numbered:
        newest = rows.unique([*keys, columns.FIRST], keep="last", maintain_order=True)
        has_messages = pl.col(columns.MESSAGES) > 0
        return len(newest.filter(has_messages, pl.col(columns.LAST).is_between(low, high)))
    rows = rows.select(*keys, columns.PANE).unique()
    if is_paned(windows):
        return len(copy_to_windows(rows, low, high, windows).unique())
    return len(rows.filter(pl.col(columns.PANE).is_between(low, high)))


def emits_deltas(manifest: Manifest) -> bool:
    """Return whether the results of an operator are deltas, which their readers add up."""
    spec = load_spec(manifest.spec)
    return isinstance(spec, WindowSpec) and not spec.firing.accumulate
