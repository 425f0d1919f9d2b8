"""Builds windowed queries on Spark.

Users write ``windowed(frame, key=…, time=…).hopping(…).early(…).late(…).keep(…).agg(…)``, and then
``.results``, ``.rejected`` or ``.start(…)``. Each call returns a new value. Invalid options are
refused before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame

from muntin.explain.size import Rates
from muntin.hosts.definition import WindowDefinition
from muntin.hosts.sentence import SentenceOptions, WindowSentence, list_keys, make_shared_parts
from muntin.model.errors import OptionError
from muntin.model.rolling import emits_messages
from muntin.model.spec import WindowSpec
from muntin.spark.explain import explain_spark_plan
from muntin.spark.host.chain import (
    SparkUpstream,
    add_window_time,
    find_upstream,
    mark_results,
)
from muntin.spark.query_definition import QueryDefinition
from muntin.spark.session import require
from muntin.spark.sources.inputs import Input
from muntin.spark.sources.naming import resolve_time
from muntin.spark.window_plan import build_windows
from muntin.spark.window_rows import build_rolling_rows, top_messages, top_windows


@dataclass(frozen=True, kw_only=True, repr=False)
class Windowed(WindowSentence["WindowedAggregate"]):
    """A windowed query over a DataFrame that isn't complete yet; `windowed` returns it."""

    _frame: DataFrame
    _arrived: Column | None = None
    _upstream: SparkUpstream | None = None
    _computed: Column | None = None

    def _build(self, spec: WindowSpec, keys: tuple[Any, ...]) -> WindowedAggregate:
        require(self._frame.sparkSession)
        if emits_messages(spec):
            return WindowedAggregate(*build_rolling_rows(self.input, keys, spec, self._shards))
        return WindowedAggregate(build_windows(self.input, keys, spec, self._shards))

    def _build_top(
        self, spec: WindowSpec, keys: tuple[Any, ...], n: int, by: Any, ascending: Any
    ) -> WindowedAggregate:
        return WindowedAggregate(*top_messages(self.input, keys, spec, n, by, ascending))

    @property
    def input(self) -> Input:
        """The input with its options."""
        return Input(
            self._frame,
            self._input_options.time,
            self._where,
            self._input_options.clock,
            self._input_options.limits,
            self._input_options.offset,
            self._upstream,
            computed_time=self._computed,
            arrival_expression=self._arrived,
        )


class WindowedAggregate(QueryDefinition, WindowDefinition["WindowedAggregate"]):
    """A complete windowed aggregation over a streaming or batch DataFrame."""

    @cached_property
    def results(self) -> DataFrame:
        """Every emission as a row.

        Columns: the keys, ``window_start``, ``window_end``, the aggregates, ``emission``
        (``early``, ``full``, ``late`` or, for sessions, ``retract``) and ``revision`` (0, 1, 2, …
        for each key and window).
        ``(keys, window_start, window_end)`` identifies a window, and the greatest revision is its
        newest result, so a sink that upserts by these columns may receive a row twice without harm.
        A batch DataFrame yields one ``full`` row for each window.
        """
        return super().results

    def _take_full(self) -> DataFrame:
        return self._full

    @cached_property
    def _full(self) -> DataFrame:
        upstream = replace(self._upstream(), full=True)
        return mark_results(self._select_rows().where(str(upstream.result_filter)), upstream)

    def _top(self, n: int, by: Any, per: Any, ascending: Any) -> WindowedAggregate:
        rows = self.full if self._upstream().emits_again else self.results
        return WindowedAggregate(*top_windows(rows, n, by, per, ascending))

    def _describe(self, rates: Rates | None) -> str:
        return explain_spark_plan(self.plan, rates)


def begin_spark_windowed(frame: object, options: SentenceOptions) -> Windowed:
    """Begin a windowed aggregation on Spark, for `muntin.windowed`."""
    keys = list_keys(options["key"], Column, "Columns of Spark, such as F.upper('page')")
    where, clock = options["where"], options["clock"]
    _check_column("where", where, "a condition", "give a condition, as a Column or as SQL")
    rows = _rows_of(frame)
    upstream = find_upstream(rows)
    rows, upstream = add_window_time(rows, upstream, options["time"])
    time, computed = resolve_time(rows, options["time"])
    _check_column("clock", clock, "a column", "give its name, or an expression as a Column")
    clock, arrived = resolve_time(rows, clock, "clock")
    return Windowed(
        _frame=rows,
        _keys=keys,
        _arrived=arrived,
        _upstream=upstream,
        _computed=computed,
        **make_shared_parts(options, time=time, clock=clock, rows=upstream),
    )


def _check_column(option: str, value: object, what: str, hint: str) -> None:
    if value is not None and not isinstance(value, Column | str):
        raise OptionError(option, value, f"isn't {what}", hint)


def _rows_of(frame: object) -> DataFrame:
    rows = frame.results if isinstance(frame, QueryDefinition) else frame
    if not isinstance(rows, DataFrame):
        hint = "give spark.createDataFrame(rows), a stream of Spark's, windows or a join"
        home = type(rows).__module__.partition(".")[0]
        if home == "pandas":
            hint = "give spark.createDataFrame(frame)"
        elif home == "polars":
            hint = "give spark.createDataFrame(frame.to_arrow())"
        raise OptionError("frame", type(rows), "isn't a DataFrame of Spark's", hint)
    return rows
