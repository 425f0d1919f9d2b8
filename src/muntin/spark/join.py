"""Builds joins of two windowed DataFrames on Spark."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from pyspark.sql import DataFrame

from muntin.hosts.sentence import (
    SentenceOptions,
    check_pair_columns,
    join_sides,
    make_side_error,
    windows_as_messages,
)
from muntin.model.bounds import SideName
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES
from muntin.spark.explain import explain_spark_plan
from muntin.spark.host.chain import drop_emission, find_upstream
from muntin.spark.join_plan import build_join
from muntin.spark.query_definition import QueryDefinition
from muntin.spark.session import require
from muntin.spark.sources.inputs import Input
from muntin.spark.windowed import Windowed, WindowedAggregate


class Joined(QueryDefinition):
    """A finished join of two streaming or batch DataFrames.

    ``windowed(joined, time=…)`` takes its pairs into windows, or into another join, within one
    query.
    """

    @cached_property
    def results(self) -> DataFrame:
        """Every pair as a row, in no order.

        Columns: those of the left side; those of the right side without its keys, with the suffix
        where the left side has the same name; and ``emission``: ``late`` for pairs that a late
        message completes when it arrives, ``early`` for all other pairs, and ``full`` for rows that
        are emitted when no partner can come any more. A batch DataFrame yields ``full`` rows. With
        ``each_change``, pairs have ``emission`` and ``revision`` like windows.
        """
        return super().results

    def explain(self) -> str:
        """Return a description of the join: its condition, how long messages wait, its state."""
        return explain_spark_plan(self.plan)


def begin_spark_join(left: object, right: object, options: SentenceOptions) -> Joined:
    """Join two DataFrames on Spark, for `muntin.join`."""
    one, other = _create_side("left", left, options), _create_side("right", right, options)
    if one._frame.isStreaming != other._frame.isStreaming:
        hint = "give two streaming or two batch DataFrames"
        raise OptionError("right", "one side", "streams and the other doesn't", hint)
    spec = join_sides(one, other, options)
    for side, input_side in zip(SIDES, (one, other), strict=True):
        check_pair_columns(side, input_side._frame.columns, spec.side(side).keys)
    require(one._frame.sparkSession)
    inputs: dict[SideName, Input] = {"left": one.input, "right": other.input}
    return Joined(build_join(inputs, spec, options["suffix"], options["shards"]))


def _create_side(side: SideName, source: object, options: SentenceOptions) -> Windowed:
    """Return a side of the join; results of windows have their end as time, and no emissions."""
    each_change = options["each_change"]
    # A table may change: each of its rows replaces the one before.
    newest = options["newest"] is True and side == "right"
    if isinstance(source, WindowedAggregate | DataFrame):
        rows = source if isinstance(source, DataFrame) else source.results
        upstream = find_upstream(rows, each_change=each_change or newest)
        if upstream is not None:
            upstream = replace(upstream, newest=newest)
        if upstream is not None and not upstream.plan.is_join:
            source = Windowed(_frame=rows, _upstream=upstream, _input_options=windows_as_messages())
    if not isinstance(source, Windowed):
        raise make_side_error(side, source)
    if each_change:
        return source
    return replace(source, _frame=drop_emission(source._frame, source._upstream))
