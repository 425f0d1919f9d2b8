"""Writes transcripts in the notation that ``notation`` and ``join_notation`` read.

What a step must give is what the oracle says of it, so that a case that was found somewhere can be
pasted into a file of transcripts and runs on every runner from then on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from tests.join_oracle import JoinStep
from tests.join_runners import Columns, JoinBatch, OracleJoinRunner
from tests.runners import Batch, OracleRunner
from tests.transcripts.notation import product, written

from muntin.model.aggregates import Aggregate
from muntin.model.axis import SECOND, Axis, format_duration
from muntin.model.bounds import (
    AsOf,
    Bound,
    ByArrival,
    Newest,
    SessionBound,
    SideName,
    Together,
    Within,
)
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days, Hours
from muntin.model.grouping_sets import format_sets
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.kinds import Kind
from muntin.model.months import Months
from muntin.model.policies import After, Every, Firing, Never, OnePolicy, Policy, When, parts
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import DUPLICATES, WindowSpec
from muntin.model.trailing import LOOK_BACK, Trailing
from muntin.model.windows import Windows
from muntin.model.zones import ZonedWindows
from muntin.testing.oracle import OracleStep


def transcript(name: str, spec: WindowSpec, steps: Sequence[Batch]) -> str:
    """A case of a windowed aggregation."""
    said = OracleRunner().run(spec, steps)
    columns = _columns(spec, steps)
    lines = [f"- name: {_scalar(name)}", "  spec:", *_indented(4, _spec(spec, columns))]
    lines.append("  steps:")
    for batch, step in zip(steps, said, strict=True):
        lines += _block(_window_step(spec, list(columns), batch, step))
    return "\n".join(lines) + "\n"


def join_transcript(name: str, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> str:
    """A case of a join."""
    said = OracleJoinRunner().run(spec, types, steps)
    lines = [f"- name: {_scalar(name)}", "  spec:", *_indented(4, _join_spec(spec, types))]
    lines.append("  steps:")
    for batch, step in zip(steps, said, strict=True):
        lines += _block(_join_step(spec, types, batch, step))
    return "\n".join(lines) + "\n"


def _columns(spec: WindowSpec, steps: Sequence[Batch]) -> dict[str, str]:
    """The columns that messages have, with their types, in the order of a row's cells."""
    names = next((list(m) for step in steps for m in step.messages), [*spec.types])
    kinds = {**spec.types, **({spec.time: "timestamp"} if spec.time else {})}
    names += [name for name in (*spec.key_columns, spec.time) if name and name not in names]
    return {name: kinds[name] for name in names}


def _spec(spec: WindowSpec, columns: Mapping[str, str]) -> Iterator[str]:
    yield f"columns: {_columns_text(columns)}"
    yield f"keys: {_scalar(' '.join(spec.key_columns))}"
    if spec.sets is not None:
        yield f"sets: {format_sets(spec.sets, spec.key_columns).replace(',', '')}"
    if spec.time is None:
        yield "time: none"
    if spec.offset is not None:
        yield f"offset: {' '.join(spec.offset)}"
    yield f"windows: {_windows(spec.windows)}"
    yield "aggregates:"
    yield from (f"  {name}: {_aggregate(agg)}" for name, agg in spec.aggregates.items())
    if spec.lateness:
        yield f"lateness: {format_duration(spec.lateness)}"
    if spec.max_ahead is not None:
        yield f"ahead: {_duration(spec.max_ahead)}"
    if spec.idle is not None:
        yield f"idle: {_duration(spec.idle)}"
    if spec.watermark is not None or spec.clocks:
        yield f"watermark: {spec.watermark or ' '.join(spec.clocks)}"
    if spec.nulls != "reject":
        yield f"nulls: {spec.nulls}"
    yield from _firing(spec.firing, spec.axis)


def _firing(firing: Firing, axis: Axis) -> Iterator[str]:
    if firing.over is not None:
        yield f"over: {firing.over.windows} windows"
    if firing.early not in (None, Never()):
        yield f"early: {_policy(firing.early)}"
    yield f"late: {_policy(firing.late)}"
    if firing.grace:
        yield f"grace: {_length(firing.grace, axis)}"
    if firing.retention != firing.grace:
        yield f"keep: {_length(firing.retention, axis)}"
    if firing.rows is not None:
        yield f"rows: {firing.rows}"
    if not firing.accumulate:
        yield "accumulate: false"
    if not firing.repeat:
        yield "repeat: false"
    if firing.fill is not None:
        ways, _, _ = str(firing.fill).rpartition(" up to ")
        yield f"fill: {_scalar(f'{ways} up to {_length(firing.fill.up_to, axis)}')}"


def _columns_text(columns: Mapping[str, str]) -> str:
    cells = [name if kind == "timestamp" else f"{name}:{kind}" for name, kind in columns.items()]
    return _scalar(" ".join(cells))


def _start(windows: Days, origin: int) -> str:
    """When some window starts, in winter: there no zone skips the time of day."""
    if not origin and not windows.shift:
        return ""
    while not windows.midnight(origin):
        origin += windows.grid.size * windows.grid.pace
    return f" from {_time(windows.midnight(origin))}"


def _windows(windows: Kind) -> str:
    axis = windows.axis
    match windows:
        case ZonedWindows(calendar, column):
            return _windows(calendar).replace(" in UTC", f" in each {column}")
        case Days(Cumulating(size, step, origin), zone):
            grid = f"{_length(size * windows.shortest, axis)} by "
            grid += _length(step * windows.shortest, axis)
            return f"cumulating {grid} in {zone}{_start(windows, origin)}"
        case Hours(Windows(size, slide, origin), zone, _, part):
            by = f" by {_length(slide * part, axis)}" if slide != size else ""
            return f"local {_length(size * part, axis)}{by} in {zone}{_start(windows, origin)}"
        case Days(Windows(size, slide, origin), zone):
            by = f" by {slide}" if slide != size else ""
            kind = "months" if isinstance(windows, Months) else "days"
            return f"{kind} {size}{by} in {zone}{_start(windows, origin)}"
        case Windows(size, slide, origin):
            grid = f"hopping {_length(size, axis)} by {_length(slide, axis)}"
            text = grid if size != slide else f"tumbling {_length(size, axis)}"
        case Cumulating(size, step, origin):
            text = f"cumulating {_length(size, axis)} by {_length(step, axis)}"
        case Trailing(sizes, every, origin):
            text = (
                f"trailing {', '.join(map(format_duration, sizes))} every {format_duration(every)}"
            )
        case Sliding(size, _, None):
            return f"sliding {_length(size, axis)}"
        case Sliding(size, _, closed):
            return f"rolling {_length(size, axis)} closed {closed}"
        case Sessions(_, closed, _, by) if by is not None:
            return f"session by {by}{' open' * (closed == 'left')}"
        case Sessions(gap, closed, _, _, longest):
            most = "" if longest is None else f", at most {_length(longest, axis)}"
            most += "".join(f", {name} {column}" for name, column in windows.conditions.items())
            return f"session {_length(gap, axis)}{most}{' open' * (closed == 'left')}"
    if not origin:
        return text
    return f"{text} from {_time(origin) if axis == 'time' else origin}"


def _aggregate(agg: Aggregate) -> str:
    own = {written: "written", product: "product"}
    kind = next((name for make, name in own.items() if _made_by(make, agg)), agg.kind)
    assert kind not in ("user", "apply"), f"{agg} can't be written down"
    options = [] if kind in own.values() else [f"{name}={value}" for name, value in agg.options]
    back = _length(agg.frame, agg.frame_axis) if agg.frame else "0 rows"
    over = "" if agg.frame is None else f" over {back}"
    return f"{kind}({', '.join([*agg.columns, *options])}){over}"


def _made_by(make: Any, agg: Aggregate) -> bool:
    if agg.kind not in ("user", "apply"):
        return False
    given = agg.functions.aggregator if agg.functions else agg.rows and agg.rows.function
    other = make(*agg.columns)
    if other.kind != agg.kind:
        return False
    mine = other.functions.aggregator if other.functions else other.rows.function
    return bool(given.__qualname__ == mine.__qualname__ and given.__module__ == mine.__module__)


def _policy(policy: Policy) -> str:
    return ", then ".join(_one_policy(part) for part in parts(policy))


def _one_policy(policy: OnePolicy) -> str:
    if isinstance(policy, When | After):
        return str(policy)
    if isinstance(policy, Never):
        return "never"
    said = [] if policy.rows is None else [f"{policy.rows} rows"]
    said += [] if policy.period is None else [format_duration(policy.period)]
    least = policy.least if isinstance(policy, Every) else 1
    waits = "" if least == 1 else f", at least {least} rows"
    return f"every {' or '.join(said)}{waits}" if said else "each"


def _length(length: int, axis: Axis) -> str:
    return f"{length} rows" if axis == "rows" else _duration(length)


def _duration(length: int) -> str:
    return format_duration(length) if length else "0 s"


def _window_step(
    spec: WindowSpec, columns: list[str], batch: Batch, step: OracleStep
) -> Iterator[tuple[str, Any]]:
    yield "wall", _time(batch.wall)
    times = {spec.time}
    yield "messages", [_message(message, columns, times) for message in batch.messages]
    yield "final", "true" if batch.final else None
    yield "backlog", _backlog(batch.backlog)
    bound = _time if spec.axis == "time" else str
    firings = []
    for row in step.firings:
        values = [_value(row[name]) for name in spec.aggregates]
        window = f"{bound(row['window_start'])}..{bound(row['window_end'])}"
        cells = {name: _cell(row[name]) for name in spec.keys}
        key = [c.replace(" ", "") if n == LOOK_BACK else c for n, c in cells.items()]
        firings.append(" ".join([*key, window, *values, row["emission"], str(row["revision"])]))
    yield "expect", firings
    refused = [
        f"{_message(row, columns, times)} {row['reason']} {_time(row['watermark'])}"
        for row in step.rejected
    ]
    yield "rejected", refused
    known = spec.axis == "time" and step.watermark != math.inf
    yield "watermark", _time(step.watermark) if known else None
    yield "duplicates", str(step.counts[DUPLICATES]) if spec.offset is not None else None


def _message(message: Mapping[str, Any], columns: Sequence[str], times: set[str | None]) -> str:
    cells = [(_time if name in times else _cell)(message[name]) for name in columns]
    return " ".join(cells)


def _cell(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return json.dumps(value) if value in ("", "null") else str(value)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_value, value))}]"
    return _cell(value)


def _time(time: Any) -> str:
    if time is None or isinstance(time, str):
        return _cell(time)
    seconds, rest = divmod(abs(time), SECOND)
    sign = "-" if time < 0 else ""
    return f"{sign}{seconds}" + (f".{rest:06d}".rstrip("0") if rest else "")


def _join_spec(spec: JoinSpec, types: Columns) -> Iterator[str]:
    pairs = zip(spec.left.keys, spec.right.keys, strict=True)
    yield f"on: {' '.join(one if one == other else f'{one}={other}' for one, other in pairs)}"
    yield f"how: {spec.how}"
    if spec.layout is not None:
        yield f"layout: {spec.layout}"
    if spec.nulls != "reject":
        yield f"nulls: {spec.nulls}"
    if isinstance(spec.bound, Within):
        ways = {"before": spec.bound.before, "after": spec.bound.after}
        said = [
            f"{'-' if reach < 0 else ''}{_length(abs(reach), spec.axis)} {way}"
            for way, reach in ways.items()
            if reach
        ]
        yield f"within: {', '.join(said) or '0 s'}"
    if isinstance(spec.bound, AsOf):
        most = spec.bound.most
        yield f"as_of: {'true' if most is None else _length(most, 'time')}"
    if isinstance(spec.bound, ByArrival):
        yield 'newest: "true"'
    if isinstance(spec.bound, Newest):
        yield "each_change: true"
    if spec.shared_time:
        yield "shared_time: true"
    for name in SIDES:
        yield f"{name}:"
        yield from _indented(2, _side(spec, name, types[name]))


def _side(spec: JoinSpec, name: SideName, types: Mapping[str, str]) -> Iterator[str]:
    side = spec.side(name)
    kinds = {n: "timestamp" if n == side.time else kind for n, kind in types.items()}
    yield f"columns: {_columns_text(kinds)}"
    windows = _bounding(spec.bound, name) or side.windows
    if windows is not None:
        yield f"windows: {_windows(windows)}"
    if side.time != "time":
        yield f"time: {side.time or 'none'}"
    if side.offset is not None:
        yield f"offset: {' '.join(side.offset)}"
    if side.lateness:
        yield f"lateness: {format_duration(side.lateness)}"
    if side.max_ahead is not None:
        yield f"ahead: {_duration(side.max_ahead)}"
    if side.idle is not None:
        yield f"idle: {_duration(side.idle)}"
    yield from _firing(side.firing, spec.axis)


def _bounding(bound: Bound, name: SideName) -> Kind | None:
    """The windows of a side that say what bounds a pair."""
    if isinstance(bound, SessionBound):
        return bound.sessions
    if isinstance(bound, Together):
        return bound.windows[0 if name == "left" else -1]
    return None


def _backlog(backlog: Mapping[Any, bool]) -> str | None:
    """What was read, each part with a plus if it has more messages."""
    return " ".join(f"{name}{'+' * behind}" for name, behind in backlog.items()) or None


def _join_step(
    spec: JoinSpec, types: Columns, batch: JoinBatch, step: JoinStep
) -> Iterator[tuple[str, Any]]:
    yield "wall", _time(batch.wall)
    for name in SIDES:
        times = {spec.side(name).time}
        yield name, [_message(m, list(types[name]), times) for m in batch.side(name)]
    yield "final", "true" if batch.final else None
    yield "backlog", _backlog(batch.backlog)
    times = {spec.left.time, f"{spec.right.time}_right"}
    rows = []
    for row in step.rows:
        cells = [
            "-" if value is None else (_time if name in times else _cell)(value)
            for name, value in row.items()
            if name != "emission"
        ]
        rows.append(" ".join([*cells, row["emission"]]))
    yield "expect", sorted(rows)
    refused = [
        f"{side} {_message(m, list(types[side]), {spec.side(side).time})} {reason} {_time(mark)}"
        for side, m, reason, mark in step.rejected
    ]
    yield "rejected", sorted(refused)


def _block(step: Iterator[tuple[str, Any]]) -> Iterator[str]:
    """A step as lines; what is empty isn't written."""
    lead = "    - "
    for name, value in step:
        if value in (None, []):
            continue
        if isinstance(value, str):
            yield f"{lead}{name}: {_scalar(value)}"
        else:
            yield f"{lead}{name}:"
            yield from (f"        - {_scalar(row)}" for row in value)
        lead = "      "


def _indented(by: int, lines: Iterator[str]) -> Iterator[str]:
    return (" " * by + line for line in lines)


def _scalar(text: str) -> str:
    """A text as YAML, quoted where it must be."""
    try:
        plain = yaml.load(f"- {text}", yaml.BaseLoader) == [text]
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)
