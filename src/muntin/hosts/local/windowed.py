"""Builds windows and joins on the local host."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.hosts.chain import WINDOW_TIME, refuse_revisions
from muntin.hosts.local.definition import LocalDefinition, LocalJoined, LocalWindowedAggregate
from muntin.hosts.local.expressions import ColumnExpression
from muntin.hosts.local.join_plan import plan_join
from muntin.hosts.local.plan import InputRows, LocalInput, LocalUpstream
from muntin.hosts.local.window_plan import plan_windows
from muntin.hosts.local.window_rows import plan_rolling_rows, rank_messages
from muntin.hosts.sentence import (
    SentenceOptions,
    WindowSentence,
    check_pair_columns,
    join_sides,
    list_keys,
    make_shared_parts,
    make_side_error,
    windows_as_messages,
)
from muntin.model.bounds import SideName
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES
from muntin.model.rolling import emits_messages
from muntin.model.spec import WindowSpec
from muntin.sources.frames import frame_source
from muntin.sources.source import Source

_FIRING = (columns.EMISSION, columns.REVISION)


@dataclass(frozen=True, kw_only=True, repr=False)
class LocalWindowed(WindowSentence[LocalWindowedAggregate]):
    """A windowed query over a source or a frame that isn't complete yet; `windowed` returns it."""

    _rows: InputRows
    _time: ColumnExpression | None = None
    _clock: ColumnExpression | None = None

    def _build(self, spec: WindowSpec, keys: tuple[Any, ...]) -> LocalWindowedAggregate:
        build = plan_rolling_rows if emits_messages(spec) else plan_windows
        return LocalWindowedAggregate(build(self.input, keys, spec, self._shards))

    def _build_top(
        self, spec: WindowSpec, keys: tuple[Any, ...], n: int, by: Any, ascending: Any
    ) -> LocalWindowedAggregate:
        return LocalWindowedAggregate(rank_messages(self.input, keys, spec, n, by, ascending))

    @property
    def input(self) -> LocalInput:
        """The input with its options."""
        options = self._input_options
        return LocalInput(
            self._rows, self._time, self._where, self._clock, options.limits, options.offset
        )


def begin_windowed(frame: object, options: SentenceOptions) -> LocalWindowed:
    """Begin a windowed aggregation on the local host, for `muntin.windowed`."""
    rows = find_rows("frame", frame)
    for option in ("time", "where", "clock"):
        if not isinstance(options[option], str | pl.Expr | None):
            problem, hint = "isn't a column", "give a name, a Polars expression, or SQL"
            if option == "where":
                problem = "isn't a condition"
                hint = "write SQL, where=\"kind = 'buy'\", or a Polars expression"
            raise OptionError(option, options[option], problem, hint)
    time, clock = options["time"], options["clock"]
    at_end = isinstance(time, str) and time == WINDOW_TIME
    if at_end and not isinstance(rows, LocalUpstream) and _has_window_ends(rows.schema):
        # A frame of results has no `window_time`, so compute it.
        time = (pl.col(columns.WINDOW_END) - pl.duration(microseconds=1)).alias(WINDOW_TIME)
    parts = make_shared_parts(
        options,
        time=_find_name(time),
        clock=_find_name(clock),
        rows=rows,
    )
    keys = list_keys(options["key"], pl.Expr, "Polars expressions")
    return LocalWindowed(_rows=rows, _keys=keys, _time=time, _clock=clock, **parts)


def _find_name(expression: ColumnExpression | None) -> str | None:
    return expression.meta.output_name() if isinstance(expression, pl.Expr) else expression


def find_rows(option: str, value: object, *, each_change: bool = False) -> InputRows:
    """Return the rows of an input: a source, or an upstream operator.

    Raises:
        OptionError: When the input is neither a frame, a source nor a query, or may emit a window
            more than once.
        MissingExtraError: When a library that reads the source isn't installed.
    """
    if isinstance(value, LocalDefinition):
        upstream = replace(value.upstream, each_change=each_change)
        if upstream.emits_again and not each_change:
            refuse_revisions(upstream.plan.spec, each_change=each_change)
        return upstream
    source = frame_source(value)
    if source is not None:
        return source
    if isinstance(value, Source):
        # A source finds out with its columns whether this process can read it.
        if not value.schema:
            raise OptionError(option, value, "has no columns", "give a source with columns")
        return value
    hint = "give a Polars, pandas or Arrow frame, a source such as mt.kafka(…), windows or a join"
    raise OptionError(option, type(value), "isn't a frame or a source", hint)


def _has_window_ends(schema: pl.Schema) -> bool:
    """Return whether rows have the ends of windows, and no `window_time`."""
    return WINDOW_TIME not in schema and isinstance(schema.get(columns.WINDOW_END), pl.Datetime)


def begin_join(left: object, right: object, options: SentenceOptions) -> LocalJoined:
    """Join two sources or frames on the local host, for `muntin.join`."""
    each_change = options["each_change"]
    left_side = _make_side("left", left, each_change=each_change)
    right_side = _make_side(
        "right", right, each_change=each_change, newest=options["newest"] is True
    )
    spec = join_sides(left_side, right_side, options)
    inputs: dict[SideName, LocalInput] = {"left": left_side.input, "right": right_side.input}
    for side in SIDES:
        if not each_change and inputs[side].upstream is not None:
            # Pairs have emission columns of their own.
            inputs[side] = replace(inputs[side], hidden=_FIRING)
        check_pair_columns(side, [*inputs[side].schema], spec.side(side).keys)
    return LocalJoined(plan_join(inputs, spec, options["suffix"], options["shards"]))


def _make_side(
    side: SideName, value: object, *, each_change: bool, newest: bool = False
) -> LocalWindowed:
    """Return a side of the join; results of windows get their end as time."""
    if isinstance(value, LocalWindowed):
        return value
    rows = None
    if not isinstance(value, LocalJoined):
        try:
            # A table may change: each of its rows replaces the one before.
            rows = find_rows(side, value, each_change=each_change or newest)
        except OptionError as error:
            if error.option != side:
                raise
    if not isinstance(rows, LocalUpstream) or rows.plan.is_join:
        raise make_side_error(side, value)
    rows = replace(rows, newest=newest)
    return LocalWindowed(_rows=rows, _time=columns.WINDOW_END, _input_options=windows_as_messages())
