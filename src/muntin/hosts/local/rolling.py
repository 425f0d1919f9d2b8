"""Plans queries that emit a row for each message, on the local host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.hosts.local.plan import Input, Plan, Shape
from muntin.hosts.local.window_plan import build_windows
from muntin.model.pipeline import NUMBER, ROWS
from muntin.model.rolling import add_messages, message_columns
from muntin.model.spec import WindowSpec

# A field for structs of messages that have no column to show, since a struct needs a field.
_NOTHING = pl.lit(0, dtype=pl.Int8).alias("__muntin_none")


def plan_rolling_rows(
    source: Input, keys: tuple[Any, ...], spec: WindowSpec, shards: int | None = None
) -> Plan:
    """Plan a query that emits each message as a row.

    Args:
        source: The input.
        keys: Key columns, by name or as expressions.
        spec: The query, without keys and columns, which are added here.
        shards: The number of shards; `None` is the default.

    Raises:
        OptionError: When a column, a type or a policy can't work; the error names it.
    """
    names = message_columns(spec, list(source.schema), chained=source.fed is not None)
    bare = [key for key in keys if isinstance(key, str)]
    names = [name for name in names if name not in bare]
    row = pl.struct(*map(pl.col, names)) if names else pl.struct(_NOTHING)
    spec = replace(spec, aggregates=add_messages(spec, row))
    return _show_messages(build_windows(source, keys, spec, shards), names)


def _show_messages(plan: Plan, names: list[str]) -> Plan:
    """Return the plan with each message that a window ends with as a row of its own."""
    assert isinstance(plan.spec, WindowSpec)
    keys = plan.keys or ()
    fields = [pl.col(ROWS).struct.field(name).alias(name) for name in names if name not in keys]
    computed = [name for name in plan.spec.aggregates if name != ROWS]
    selected = [
        *map(pl.col, (*keys, columns.WINDOW_START, columns.WINDOW_END)),
        *fields,
        *map(pl.col, (*computed, columns.EMISSION, columns.REVISION, NUMBER)),
    ]
    numbers = pl.int_ranges(1, pl.col(ROWS).list.len() + 1, dtype=pl.Int32())

    def apply(results: pl.DataFrame) -> pl.DataFrame:
        numbered = results.with_columns(numbers.alias(NUMBER))
        return numbered.explode(ROWS, NUMBER).select(selected)

    schema = apply(pl.DataFrame(schema=plan.results)).schema
    shape = Shape(schema, apply, (*keys, NUMBER), by_window=False)
    again = plan.again
    return replace(plan, shape=shape, again=lambda count: _show_messages(again(count), names))
