"""Runs queries over messages of a test, without a source, a checkpoint or threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from muntin.engine.clocks import read_machine_clock
from muntin.hosts.local.definition import LocalDefinition
from muntin.hosts.local.messages import to_microseconds
from muntin.hosts.local.run import OperatorRun
from muntin.hosts.progress import Progress, Totals
from muntin.model.axis import parse_time
from muntin.model.errors import OptionError
from muntin.sources.frames import frame_source
from muntin.sources.source import Source
from muntin.state.blobs import MemoryBlobs

Moment = datetime | str | int


@dataclass(frozen=True)
class TestRun:
    """The output of a query for the messages of a test.

    Attributes:
        emissions: All rows that it emitted, in order, with the column `batch`.
        rejected: All rejected messages, with `reason`, `watermark` and the column `batch`.
        progress: Its figures at the end.
    """

    __test__ = False

    emissions: pl.DataFrame
    rejected: pl.DataFrame
    progress: Progress


def run_definition(
    definition: object, messages: Any, ticks: Sequence[Moment] | None, final: bool
) -> TestRun:
    """Run a query over messages, for `muntin.testing.run`."""
    if not isinstance(definition, LocalDefinition):
        hint = "give windows or a join over a frame or a source, not over a Spark DataFrame"
        raise OptionError("definition", type(definition).__name__, "can't be run here", hint)
    plan = definition.plan
    batches = _make_batches(plan.sources, messages)
    clocks = [_to_micros(moment) for moment in ticks or ()]
    count = max(len(batches), len(clocks))
    nothing = tuple(pl.DataFrame(schema=source.schema) for source in plan.sources)
    run, totals = OperatorRun(plan, lambda operator, shard: MemoryBlobs()), Totals()
    emissions, rejected = [], []
    for number in range(count):
        frames = batches[number] if number < len(batches) else nothing
        now = clocks[min(number, len(clocks) - 1)] if clocks else read_machine_clock()
        wall = None if plan.tick_period is None else now
        emitted = run.step(
            iter([[one] for one in frames]), now, wall, final=final and number == count - 1
        )
        totals.add(number, emitted.progress)
        batch = pl.lit(number, dtype=pl.Int64).alias("batch")
        emissions.append(emitted.results.with_columns(batch))
        rejected.append(emitted.rejected.with_columns(batch))
    return TestRun(pl.concat(emissions), pl.concat(rejected), totals.progress)


def _make_batches(sources: Sequence[Source], messages: Any) -> list[tuple[pl.DataFrame, ...]]:
    """Return the frames of all sources, batch by batch."""
    if len(sources) == 1:
        return [(source_messages,) for source_messages in _make_frames(sources[0], messages)]
    if not isinstance(messages, Mapping | tuple) or len(messages) != len(sources):
        hint = 'give {"left": …, "right": …}, or a tuple in the order of the inputs'
        problem = f"isn't the messages of {len(sources)} inputs"
        raise OptionError("messages", type(messages).__name__, problem, hint)
    per_source = [*messages.values()] if isinstance(messages, Mapping) else [*messages]
    frames = [
        _make_frames(source, source_messages)
        for source, source_messages in zip(sources, per_source, strict=True)
    ]
    count = max(map(len, frames))
    for source, batches in zip(sources, frames, strict=True):
        batches += [pl.DataFrame(schema=source.schema)] * (count - len(batches))
    return list(zip(*frames, strict=True))


def _make_frames(source: Source, messages: Any) -> list[pl.DataFrame]:
    """Return the messages of a source, as a frame for each batch."""
    if frame_source(messages) is not None:
        return [_fit_to_schema(source.schema, messages)]
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        hint = "give rows as dictionaries, a frame, or a list of these, one for each batch"
        raise OptionError("messages", type(messages).__name__, "can't be read as messages", hint)
    if all(isinstance(row, Mapping) for row in messages):
        return [_fit_to_schema(source.schema, messages)]
    return [_fit_to_schema(source.schema, batch) for batch in messages]


def _fit_to_schema(schema: pl.Schema, messages: Any) -> pl.DataFrame:
    """Return rows in a source's columns; missing columns are NULL, and texts may be times."""
    frame = frame_source(messages)
    if frame is None and not all(isinstance(row, Mapping) for row in messages):
        hint = f"give dictionaries of {', '.join(schema)}, or a frame"
        raise OptionError("messages", messages[0], "isn't a message", hint)
    rows = pl.DataFrame(messages, infer_schema_length=None) if frame is None else frame.rows
    for name in rows.columns:
        if name not in schema:
            hint = f"give some of {', '.join(schema)}"
            raise OptionError("messages", name, "isn't a column of the input", hint)
    selected = []
    for name, kind in schema.items():
        value = pl.col(name) if name in rows.columns else pl.lit(None)
        if name in rows.columns and isinstance(kind, pl.Datetime):
            value = to_microseconds(value, rows.schema[name]).cast(
                pl.Datetime("us", kind.time_zone)
            )
            if rows.schema[name] == pl.Null():
                value = pl.lit(None)
        selected.append(value.cast(kind).alias(name))
    try:
        fitted = rows.select(selected) if rows.columns else pl.DataFrame(schema=schema)
    except pl.exceptions.PolarsError as error:
        line = str(error).partition("\n")[0]
        hint = f"give values of the types {dict(schema)}"
        raise OptionError("messages", "rows", f"don't fit ({line})", hint) from error
    for name in rows.columns:
        _check_kept_whole(rows[name], fitted[name])
    return fitted


def _check_kept_whole(values: pl.Series, fitted: pl.Series) -> None:
    """Refuse numbers that a cast to a whole number or a decimal rounds."""
    kind = fitted.dtype
    if not values.dtype.is_numeric() or not (kind.is_integer() or kind.is_decimal()):
        return
    rounded = values.filter(fitted.cast(values.dtype, strict=False).ne_missing(values))
    if len(rounded):
        problem = f"has {rounded[0]}, which the column of type {kind} doesn't hold"
        raise OptionError("messages", values.name, problem, f"give values of the type {kind}")


def _to_micros(moment: Moment) -> int:
    return moment if isinstance(moment, int) else parse_time("ticks", moment)
