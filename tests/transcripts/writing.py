"""Writes transcripts in the notation that ``notation`` and ``join_notation`` read.

The expected output of a step is that of the oracle, so that a case from a failing test can be
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
from tests.transcripts.notation import format_rows, multiply

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


def write_transcript(name: str, spec: WindowSpec, steps: Sequence[Batch]) -> str:
    """Write a case of a windowed aggregation."""
    output = OracleRunner().run(spec, steps)
    columns = _list_columns(spec, steps)
    lines = [f"- name: {_quote(name)}", "  spec:", *_indent(4, _write_spec(spec, columns))]
    lines.append("  steps:")
    for batch, step in zip(steps, output, strict=True):
        lines += _write_block(_write_window_step(spec, list(columns), batch, step))
    return "\n".join(lines) + "\n"


def write_join_transcript(
    name: str, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]
) -> str:
    """Write a case of a join."""
    output = OracleJoinRunner().run(spec, types, steps)
    lines = [f"- name: {_quote(name)}", "  spec:", *_indent(4, _write_join_spec(spec, types))]
    lines.append("  steps:")
    for batch, step in zip(steps, output, strict=True):
        lines += _write_block(_write_join_step(spec, types, batch, step))
    return "\n".join(lines) + "\n"


def _list_columns(spec: WindowSpec, steps: Sequence[Batch]) -> dict[str, str]:
    """Return the columns of messages with their types, in the order of a row's cells."""
    names = next((list(m) for step in steps for m in step.messages), [*spec.types])
    kinds = {**spec.types, **({spec.time: "timestamp"} if spec.time else {})}
    names += [name for name in (*spec.key_columns, spec.time) if name and name not in names]
    return {name: kinds[name] for name in names}


def _write_spec(spec: WindowSpec, columns: Mapping[str, str]) -> Iterator[str]:
    yield f"columns: {_format_columns(columns)}"
    yield f"keys: {_quote(' '.join(spec.key_columns))}"
    if spec.sets is not None:
        yield f"sets: {format_sets(spec.sets, spec.key_columns).replace(',', '')}"
    if spec.time is None:
        yield "time: none"
    if spec.offset is not None:
        yield f"offset: {' '.join(spec.offset)}"
    yield f"windows: {_format_windows(spec.windows)}"
    yield "aggregates:"
    yield from (f"  {name}: {_format_aggregate(agg)}" for name, agg in spec.aggregates.items())
    if spec.lateness:
        yield f"lateness: {format_duration(spec.lateness)}"
    if spec.max_ahead is not None:
        yield f"ahead: {_format_duration(spec.max_ahead)}"
    if spec.idle is not None:
        yield f"idle: {_format_duration(spec.idle)}"
    if spec.watermark is not None or spec.clocks:
        yield f"watermark: {spec.watermark or ' '.join(spec.clocks)}"
    if spec.nulls != "reject":
        yield f"nulls: {spec.nulls}"
    yield from _write_firing(spec.firing, spec.axis)


def _write_firing(firing: Firing, axis: Axis) -> Iterator[str]:
    if firing.over is not None:
        yield f"over: {firing.over.windows} windows"
    if firing.early not in (None, Never()):
        yield f"early: {_format_policy(firing.early)}"
    yield f"late: {_format_policy(firing.late)}"
    if firing.grace:
        yield f"grace: {_format_length(firing.grace, axis)}"
    if firing.retention != firing.grace:
        yield f"keep: {_format_length(firing.retention, axis)}"
    if firing.rows is not None:
        yield f"rows: {firing.rows}"
    if not firing.accumulate:
        yield "accumulate: false"
    if not firing.repeat:
        yield "repeat: false"
    if firing.fill is not None:
        methods, _, _ = str(firing.fill).rpartition(" up to ")
        yield f"fill: {_quote(f'{methods} up to {_format_length(firing.fill.up_to, axis)}')}"


def _format_columns(columns: Mapping[str, str]) -> str:
    cells = [name if kind == "timestamp" else f"{name}:{kind}" for name, kind in columns.items()]
    return _quote(" ".join(cells))


def _format_start(windows: Days, origin: int) -> str:
    """Return the start of a window in winter, when no zone skips the time of day."""
    if not origin and not windows.shift:
        return ""
    while not windows.midnight(origin):
        origin += windows.grid.size * windows.grid.pace
    return f" from {_format_time(windows.midnight(origin))}"


def _format_windows(windows: Kind) -> str:
    axis = windows.axis
    match windows:
        case ZonedWindows(calendar, column):
            return _format_windows(calendar).replace(" in UTC", f" in each {column}")
        case Days(Cumulating(size, step, origin), zone):
            grid = f"{_format_length(size * windows.shortest, axis)} by "
            grid += _format_length(step * windows.shortest, axis)
            return f"cumulating {grid} in {zone}{_format_start(windows, origin)}"
        case Hours(Windows(size, slide, origin), zone, _, part):
            by = f" by {_format_length(slide * part, axis)}" if slide != size else ""
            start = _format_start(windows, origin)
            return f"local {_format_length(size * part, axis)}{by} in {zone}{start}"
        case Days(Windows(size, slide, origin), zone):
            by = f" by {slide}" if slide != size else ""
            kind = "months" if isinstance(windows, Months) else "days"
            return f"{kind} {size}{by} in {zone}{_format_start(windows, origin)}"
        case Windows(size, slide, origin):
            grid = f"hopping {_format_length(size, axis)} by {_format_length(slide, axis)}"
            text = grid if size != slide else f"tumbling {_format_length(size, axis)}"
        case Cumulating(size, step, origin):
            text = f"cumulating {_format_length(size, axis)} by {_format_length(step, axis)}"
        case Trailing(sizes, every, origin):
            text = (
                f"trailing {', '.join(map(format_duration, sizes))} every {format_duration(every)}"
            )
        case Sliding(size, _, None):
            return f"sliding {_format_length(size, axis)}"
        case Sliding(size, _, closed):
            return f"rolling {_format_length(size, axis)} closed {closed}"
        case Sessions(_, closed, _, by) if by is not None:
            return f"session by {by}{' open' * (closed == 'left')}"
        case Sessions(gap, closed, _, _, longest):
            options = "" if longest is None else f", at most {_format_length(longest, axis)}"
            options += "".join(f", {name} {column}" for name, column in windows.conditions.items())
            return f"session {_format_length(gap, axis)}{options}{' open' * (closed == 'left')}"
    if not origin:
        return text
    return f"{text} from {_format_time(origin) if axis == 'time' else origin}"


def _format_aggregate(agg: Aggregate) -> str:
    user_aggregates = {format_rows: "written", multiply: "product"}
    kind = next(
        (
            name
            for make_aggregate, name in user_aggregates.items()
            if _is_made_by(make_aggregate, agg)
        ),
        agg.kind,
    )
    assert kind not in ("user", "apply"), f"{agg} can't be written down"
    options = (
        []
        if kind in user_aggregates.values()
        else [f"{name}={value}" for name, value in agg.options]
    )
    back = _format_length(agg.frame, agg.frame_axis) if agg.frame else "0 rows"
    over = "" if agg.frame is None else f" over {back}"
    return f"{kind}({', '.join([*agg.columns, *options])}){over}"


def _is_made_by(make_aggregate: Any, agg: Aggregate) -> bool:
    if agg.kind not in ("user", "apply"):
        return False
    function = agg.functions.aggregator if agg.functions else agg.rows and agg.rows.function
    made_aggregate = make_aggregate(*agg.columns)
    if made_aggregate.kind != agg.kind:
        return False
    own_function = (
        made_aggregate.functions.aggregator
        if made_aggregate.functions
        else made_aggregate.rows.function
    )
    return bool(
        function.__qualname__ == own_function.__qualname__
        and function.__module__ == own_function.__module__
    )


def _format_policy(policy: Policy) -> str:
    return ", then ".join(_format_one_policy(part) for part in parts(policy))


def _format_one_policy(policy: OnePolicy) -> str:
    if isinstance(policy, When | After):
        return str(policy)
    if isinstance(policy, Never):
        return "never"
    conditions = [] if policy.rows is None else [f"{policy.rows} rows"]
    conditions += [] if policy.period is None else [format_duration(policy.period)]
    least = policy.least if isinstance(policy, Every) else 1
    minimum = "" if least == 1 else f", at least {least} rows"
    return f"every {' or '.join(conditions)}{minimum}" if conditions else "each"


def _format_length(length: int, axis: Axis) -> str:
    return f"{length} rows" if axis == "rows" else _format_duration(length)


def _format_duration(length: int) -> str:
    return format_duration(length) if length else "0 s"


def _write_window_step(
    spec: WindowSpec, columns: list[str], batch: Batch, step: OracleStep
) -> Iterator[tuple[str, Any]]:
    yield "wall", _format_time(batch.wall)
    times = {spec.time}
    yield "messages", [_format_message(message, columns, times) for message in batch.messages]
    yield "final", "true" if batch.final else None
    yield "backlog", _format_backlog(batch.backlog)
    format_bound = _format_time if spec.axis == "time" else str
    firings = []
    for row in step.firings:
        values = [_format_value(row[name]) for name in spec.aggregates]
        window = f"{format_bound(row['window_start'])}..{format_bound(row['window_end'])}"
        cells = {name: _format_cell(row[name]) for name in spec.keys}
        key = [c.replace(" ", "") if n == LOOK_BACK else c for n, c in cells.items()]
        firings.append(" ".join([*key, window, *values, row["emission"], str(row["revision"])]))
    yield "expect", firings
    rejected = [
        f"{_format_message(row, columns, times)} {row['reason']} {_format_time(row['watermark'])}"
        for row in step.rejected
    ]
    yield "rejected", rejected
    has_watermark = spec.axis == "time" and step.watermark != math.inf
    yield "watermark", _format_time(step.watermark) if has_watermark else None
    yield "duplicates", str(step.counts[DUPLICATES]) if spec.offset is not None else None


def _format_message(
    message: Mapping[str, Any], columns: Sequence[str], times: set[str | None]
) -> str:
    cells = [(_format_time if name in times else _format_cell)(message[name]) for name in columns]
    return " ".join(cells)


def _format_cell(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return json.dumps(value) if value in ("", "null") else str(value)


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_format_value, value))}]"
    return _format_cell(value)


def _format_time(time: Any) -> str:
    if time is None or isinstance(time, str):
        return _format_cell(time)
    seconds, rest = divmod(abs(time), SECOND)
    sign = "-" if time < 0 else ""
    return f"{sign}{seconds}" + (f".{rest:06d}".rstrip("0") if rest else "")


def _write_join_spec(spec: JoinSpec, types: Columns) -> Iterator[str]:
    pairs = zip(spec.left.keys, spec.right.keys, strict=True)
    yield f"on: {' '.join(left if left == right else f'{left}={right}' for left, right in pairs)}"
    yield f"how: {spec.how}"
    if spec.layout is not None:
        yield f"layout: {spec.layout}"
    if spec.nulls != "reject":
        yield f"nulls: {spec.nulls}"
    if isinstance(spec.bound, Within):
        reaches = {"before": spec.bound.before, "after": spec.bound.after}
        lengths = [
            f"{'-' if reach < 0 else ''}{_format_length(abs(reach), spec.axis)} {direction}"
            for direction, reach in reaches.items()
            if reach
        ]
        yield f"within: {', '.join(lengths) or '0 s'}"
    if isinstance(spec.bound, AsOf):
        greatest_age = spec.bound.most
        yield f"as_of: {'true' if greatest_age is None else _format_length(greatest_age, 'time')}"
    if isinstance(spec.bound, ByArrival):
        yield 'newest: "true"'
    if isinstance(spec.bound, Newest):
        yield "each_change: true"
    if spec.shared_time:
        yield "shared_time: true"
    for name in SIDES:
        yield f"{name}:"
        yield from _indent(2, _write_side(spec, name, types[name]))


def _write_side(spec: JoinSpec, name: SideName, types: Mapping[str, str]) -> Iterator[str]:
    side = spec.side(name)
    kinds = {n: "timestamp" if n == side.time else kind for n, kind in types.items()}
    yield f"columns: {_format_columns(kinds)}"
    windows = _get_bounding_windows(spec.bound, name) or side.windows
    if windows is not None:
        yield f"windows: {_format_windows(windows)}"
    if side.time != "time":
        yield f"time: {side.time or 'none'}"
    if side.offset is not None:
        yield f"offset: {' '.join(side.offset)}"
    if side.lateness:
        yield f"lateness: {format_duration(side.lateness)}"
    if side.max_ahead is not None:
        yield f"ahead: {_format_duration(side.max_ahead)}"
    if side.idle is not None:
        yield f"idle: {_format_duration(side.idle)}"
    yield from _write_firing(side.firing, spec.axis)


def _get_bounding_windows(bound: Bound, name: SideName) -> Kind | None:
    """Return the windows of a side that bound a pair."""
    if isinstance(bound, SessionBound):
        return bound.sessions
    if isinstance(bound, Together):
        return bound.windows[0 if name == "left" else -1]
    return None


def _format_backlog(backlog: Mapping[Any, bool]) -> str | None:
    """Format the partitions that were read, with a plus if they have more messages."""
    return " ".join(f"{name}{'+' * behind}" for name, behind in backlog.items()) or None


def _write_join_step(
    spec: JoinSpec, types: Columns, batch: JoinBatch, step: JoinStep
) -> Iterator[tuple[str, Any]]:
    yield "wall", _format_time(batch.wall)
    for name in SIDES:
        times = {spec.side(name).time}
        yield name, [_format_message(m, list(types[name]), times) for m in batch.side(name)]
    yield "final", "true" if batch.final else None
    yield "backlog", _format_backlog(batch.backlog)
    times = {spec.left.time, f"{spec.right.time}_right"}
    rows = []
    for row in step.rows:
        cells = [
            "-" if value is None else (_format_time if name in times else _format_cell)(value)
            for name, value in row.items()
            if name != "emission"
        ]
        rows.append(" ".join([*cells, row["emission"]]))
    yield "expect", sorted(rows)
    rejected = [
        f"{side} {_format_message(m, list(types[side]), {spec.side(side).time})} "
        f"{reason} {_format_time(watermark)}"
        for side, m, reason, watermark in step.rejected
    ]
    yield "rejected", sorted(rejected)


def _write_block(step: Iterator[tuple[str, Any]]) -> Iterator[str]:
    """Yield the lines of a step, without empty values."""
    prefix = "    - "
    for name, value in step:
        if value in (None, []):
            continue
        if isinstance(value, str):
            yield f"{prefix}{name}: {_quote(value)}"
        else:
            yield f"{prefix}{name}:"
            yield from (f"        - {_quote(row)}" for row in value)
        prefix = "      "


def _indent(width: int, lines: Iterator[str]) -> Iterator[str]:
    return (" " * width + line for line in lines)


def _quote(text: str) -> str:
    """Format text as YAML, with quotes if they are needed."""
    try:
        plain = yaml.load(f"- {text}", yaml.BaseLoader) == [text]
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)
