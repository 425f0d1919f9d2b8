"""Computes window results in DuckDB from all messages at once, where its SQL can express them.

It isn't a runner, since it has neither steps nor policies. It returns the last revision of every
window, and requires that no message is late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
from tests.runners import Batch

from muntin.model.aggregates import Aggregate
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days, Hours
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows
from muntin.testing.oracle.emitting import nulls_first

WindowId = tuple[Any, ...]
# The aggregates that are one call in DuckDB, which takes a FILTER.
_PLAIN = {"count", "min", "max", "bool_and", "bool_or", "approx_distinct", "count_distinct"}
_TYPES = {"long": "BIGINT", "string": "VARCHAR", "double": "DOUBLE", "boolean": "BOOLEAN"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000


def compute_windows(spec: WindowSpec, steps: Sequence[Batch]) -> dict[WindowId, dict[str, Any]]:
    """Return the values of every window, by its start, key and end as they are emitted.

    Aggregates that DuckDB doesn't have are left out.
    """
    excludes_last = isinstance(spec.windows, Sliding) and not spec.windows.includes_last
    calls = {
        name: text for name, agg in spec.aggregates.items() if (text := _format_aggregate(agg))
    }
    if excludes_last:
        # DuckDB computes only these aggregates over the messages before a row.
        calls = {name: text for name, text in calls.items() if spec.aggregates[name].kind in _PLAIN}
        before = "(WHERE m.position < w.high - 1)"
        calls = {name: f"{text} FILTER {before}" for name, text in calls.items()}
    with duckdb.connect() as connection:
        _load(connection, spec, steps)
        connection.execute(_create_windows(connection, spec))
        keys = [f'"{key}"' for key in spec.keys]
        equal_keys = "".join(f" AND m.{key} IS NOT DISTINCT FROM w.{key}" for key in keys)
        start = "w.low"
        if isinstance(spec.windows, Sliding) and spec.windows.rolls and spec.axis == "time":
            start = f"w.high - {spec.windows.size + 1}"
        columns = [*(f"w.{key}" for key in keys), start, "w.shown"]
        columns += [f'{text} AS "{name}"' for name, text in calls.items()]
        rows = connection.execute(
            f"SELECT {', '.join(columns)} FROM windows w JOIN messages m "
            f"ON m.position >= w.low AND m.position < w.high{equal_keys} "
            f"GROUP BY {', '.join([*(f'w.{key}' for key in keys), 'w.low', 'w.high', 'w.shown'])}"
        ).fetchall()
    width = len(spec.keys)
    return {
        (row[width], nulls_first(row[:width]), row[width + 1]): dict(
            zip(calls, row[width + 2 :], strict=True)
        )
        for row in rows
    }


def _load(connection: Any, spec: WindowSpec, steps: Sequence[Batch]) -> None:
    """Load the valid messages, each once, with their positions."""
    messages = [message for step in steps for message in step.messages]
    column_types = {name: _TYPES[kind] for name, kind in spec.types.items()}
    if spec.time is not None:
        column_types[spec.time] = "BIGINT"
    columns = ", ".join(f'"{name}" {kind}' for name, kind in column_types.items())
    connection.execute(f"CREATE TABLE read (arrived BIGINT, malformed BOOLEAN, {columns})")
    rows = [
        [number, isinstance(m.get(spec.time), str), *(_read_cell(spec, n, m) for n in column_types)]
        for number, m in enumerate(messages)
    ]
    if rows:
        marks = ", ".join("?" * (len(column_types) + 2))
        connection.executemany(f"INSERT INTO read VALUES ({marks})", rows)
    conditions = [
        f'"{name}" IS NOT NULL'
        for name in (*spec.non_null_keys, *(spec.offset or ()), spec.time)
        if name
    ]
    distinct_messages = "SELECT * FROM read"
    if spec.offset is not None:
        offset_columns = ", ".join(f'"{name}"' for name in spec.offset)
        distinct_messages += (
            f" QUALIFY row_number() OVER (PARTITION BY {offset_columns} ORDER BY arrived) = 1"
        )
    valid = " AND ".join(["NOT malformed", *conditions])
    keys = ", ".join(f'"{key}"' for key in spec.keys) or "1"
    position = f'"{spec.time}"'
    if spec.axis == "rows":
        position = f"row_number() OVER (PARTITION BY {keys} ORDER BY arrived) - 1"
        if spec.offset is not None:
            position = f'"{spec.offset[1]}"'
    connection.execute(
        f"CREATE TABLE messages AS SELECT *, {position} AS position "
        f"FROM ({distinct_messages}) WHERE {valid}"
    )


def _read_cell(spec: WindowSpec, name: str, message: dict[str, Any]) -> Any:
    value = message.get(name)
    return None if name == spec.time and isinstance(value, str) else value


def _create_windows(connection: Any, spec: WindowSpec) -> str:
    """Return the statement that creates windows: keys, ``[low, high)``, and the emitted end."""
    keys = "".join(f'"{key}", ' for key in spec.keys)
    source = "messages"
    match spec.windows:
        case Sessions(gap, closed):
            columns = f"min(position) AS low, max(position) + 1 AS high, max(position) + {gap}"
            source = _group_sessions(keys, gap, ">" if closed == "both" else ">=")
        case Sliding(size, axis, closed) if closed is not None:
            back = size - (closed in ("right", "neither"))
            low = f"position - {back}"
            if axis == "rows":
                columns = f"greatest({low}, 0) AS low, position + 1 AS high, position + 1"
            else:
                columns = f"{low} AS low, position + 1 AS high, position"
        case Sliding(size, "rows"):
            first = f"greatest(position - {size - 1}, 0)"
            columns = f"{first} AS low, position + 1 AS high, position + 1"
        case Sliding(size):
            columns = f"edge AS low, edge + {size + 1} AS high, edge + {size}"
            positions = f"[position - {size}, position + 1]"
            source = f"(SELECT *, unnest({positions}) AS edge FROM messages)"
        case Days():
            _create_calendar_windows(connection, spec.windows)
            columns = "low, high, high"
            source = "messages JOIN edges ON position >= low AND position < high"
        case _:
            columns = "bounds.l AS low, bounds.h AS high, bounds.h"
            source = f"(SELECT *, unnest({_list_windows(spec.windows)}) AS bounds FROM messages)"
    return f"CREATE TABLE windows AS SELECT DISTINCT {keys}{columns} AS shown FROM {source}"


def _list_windows(windows: Windows | Cumulating) -> str:
    """Return a list of the windows around a position, with some more of them."""
    span = windows.size
    step = windows.slide if isinstance(windows, Windows) else windows.size
    low = f"{windows.origin} + ((position - {windows.origin} - {span}) // {step} + i) * {step}"
    numbers = f"range(-1, {span // step + 4})"
    if isinstance(windows, Windows):
        window = f"{{'l': {low}, 'h': {low} + {span}}}"
        return f"list_transform({numbers}, lambda i: {window})"
    window = f"{{'l': {low}, 'h': {low} + j * {windows.step}}}"
    steps = f"list_transform(range(1, {windows.steps + 1}), lambda j: {window})"
    return f"flatten(list_transform({numbers}, lambda i: {steps}))"


def _group_sessions(keys: str, gap: int, beyond: str) -> str:
    """Return messages with the number of their session, grouped by it."""
    partition = f"PARTITION BY {keys[:-2]} " if keys else ""
    order = f"OVER ({partition}ORDER BY position, arrived)"
    return f"""(
        SELECT *, sum(apart::INT) {order} AS number FROM (
            SELECT *, coalesce(position - lag(position) {order} {beyond} {gap}, false) AS apart
            FROM messages
        )
    ) GROUP BY {keys}number"""


def _create_calendar_windows(connection: Any, windows: Days) -> None:
    """Create the windows of a calendar from the first message to the last."""
    low, high = connection.execute("SELECT min(position), max(position) FROM messages").fetchone()
    connection.execute("CREATE TABLE edges (low BIGINT, high BIGINT)")
    if low is None:
        return
    # A window that a change of clocks skips would have no length.
    rows = [row for row in _iterate_calendar(windows, low, high) if row[0] < row[1]]
    connection.executemany("INSERT INTO edges VALUES (?, ?)", rows)


def _iterate_calendar(windows: Days, low: int, high: int) -> Iterator[tuple[int, int]]:
    grid, zone = windows.grid, ZoneInfo(windows.zone)
    assert isinstance(grid, Windows), "cumulating windows of a calendar aren't computed here"
    unit = _get_unit(windows)
    # Local times are less than two days from UTC, also where clocks change.
    margin = 2 * _DAY // unit + 1
    for number in range(low // unit - grid.size - margin, high // unit + margin + 1):
        if (number - grid.origin) % grid.slide == 0:
            first, end = number * unit + windows.shift, (number + grid.size) * unit + windows.shift
            yield _find_first_instant(first, zone), _find_first_instant(end, zone)


def _get_unit(windows: Days) -> int:
    """Return the length of what a calendar's grid counts, measured in local time."""
    if type(windows) is Days:
        return _DAY
    assert isinstance(windows, Hours), f"{windows.KIND} of a calendar aren't computed here"
    return windows.part


def _find_first_instant(since_1970: int, zone: ZoneInfo) -> int:
    """Return the first instant at which clocks show a local time, or the change that skips it."""
    wall = datetime(1970, 1, 1) + timedelta(microseconds=since_1970)
    earlier, later = (_to_micros(wall.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if earlier <= later:
        return earlier
    # For a skipped time, fold 1 is before the change, and fold 0 is after it.
    low, high = later, earlier
    while low < high:
        middle = (low + high) // 2
        local_time = (_EPOCH + timedelta(microseconds=middle)).astimezone(zone).replace(tzinfo=None)
        low, high = (low, middle) if local_time >= wall else (middle + 1, high)
    return low


def _to_micros(time: datetime) -> int:
    return (time.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def _format_aggregate(agg: Aggregate) -> str | None:
    """Return an aggregate in DuckDB's SQL; NaN is the greatest number, and not in ranks."""
    if agg.frame is not None:
        return None
    column, by = (None if name is None else f'm."{name}"' for name in (agg.column, agg.by))
    is_not_null = f"{column} IS NOT NULL"
    values = f"list_sort(list({column}) FILTER ({is_not_null}))"
    numbers = f"list_filter({values}, lambda x: NOT isnan(x::DOUBLE))"
    match agg.kind:
        case "count":
            return f"count({column or '*'})"
        case "count_if":
            return f"count(*) FILTER ({column})"
        case "sum":
            return _format_sum(column)
        case "min" | "max" | "bool_and" | "bool_or":
            return f"{agg.kind}({column})"
        case "mean":
            return f"avg({column})"
        case "variance" | "stddev":
            return _format_spread(column, "var_samp" if agg.kind == "variance" else "stddev_samp")
        case "first" | "last":
            return _format_best(column, "m.position", agg.kind == "first", "true")
        case "arg_min" | "arg_max":
            return _format_best(column, by, agg.kind == "arg_min", f"{by} IS NOT NULL")
        case "approx_distinct" | "count_distinct":
            return f"count(DISTINCT {column})"
        case "sum_distinct":
            return _format_sum(column, "DISTINCT ")
        case "mode":
            # DuckDB returns the first of the most frequent values that it reads.
            return f"mode({column} ORDER BY {column})"
        case "quantile" | "exact_quantile":
            return f"{numbers}[greatest(1, ceil({agg.option('q')} * len({numbers})))::BIGINT]"
        case "median":
            return f"median({column}) FILTER ({is_not_null} AND NOT isnan({column}::DOUBLE))"
        case "collect_list":
            return (
                f"coalesce(list({column} ORDER BY m.position, {column}) FILTER ({is_not_null}), [])"
            )
        case "distinct":
            return f"coalesce(list_sort(list(DISTINCT {column}) FILTER ({is_not_null})), [])"
        case "top_k":
            ordered = numbers if dict(agg.options).get("ascending") else f"list_reverse({numbers})"
            return f"coalesce({ordered}[1:{agg.option('k')}], [])"
    return None


def _format_sum(column: str | None, each: str = "") -> str:
    is_integer, total = f"typeof(any_value({column})) = 'BIGINT'", f"sum({each}{column})"
    fits = f"{total} BETWEEN -9223372036854775808 AND 9223372036854775807"
    return f"CASE WHEN NOT {is_integer} OR {fits} THEN {total} END"


def _format_spread(column: str | None, function: str) -> str:
    is_finite = f"isfinite({column}::DOUBLE)"
    return (
        f"CASE WHEN count({column}) > 1 AND NOT bool_and({is_finite}) THEN 'nan'::DOUBLE "
        f"ELSE {function}({column}) FILTER ({is_finite}) END"
    )


def _format_best(column: str | None, by: str | None, least: bool, condition: str) -> str:
    direction = "ASC" if least else "DESC"
    order = f"{by} {direction}, {column} {direction} NULLS LAST"
    return f"(list({{'v': {column}}} ORDER BY {order}) FILTER ({condition}))[1].v"
