"""The sentence of joins: two windowed DataFrames in, one DataFrame of pairs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from pyspark.sql import DataFrame

from muntin.engine import columns
from muntin.model.axis import Duration, Length
from muntin.model.errors import OptionError
from muntin.model.inputs import Marks
from muntin.model.joins import SIDES, How, JoinNulls, On, SideName, StateLayout
from muntin.model.sentence import joined
from muntin.spark.explain import explain
from muntin.spark.host.chain import fed_by, pairable
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
        """Every pair as a row.

        Columns: those of the left side; those of the right side but its keys, with the suffix
        where the left has the name too; and ``emission``: ``late`` for the pairs that a late
        message finds when it arrives, ``early`` for all others, ``full`` for what is emitted when
        no partner can come any more. Rows come in no order. A batch DataFrame gives ``full`` rows.
        With ``each_change`` they are those of windows, ``emission`` and ``revision``.
        """
        return super().results

    def explain(self) -> str:
        """Who are partners, how long one waits, and how the state lies, in words."""
        return explain(self.plan)


def join(
    left: Windowed | WindowedAggregate | DataFrame,
    right: Windowed | WindowedAggregate | DataFrame,
    *,
    on: On,
    within: Length | Sequence[Length | int] | None = None,
    as_of: bool | Duration = False,
    how: How = "inner",
    suffix: str = "_right",
    layout: StateLayout | None = None,
    buckets: int | None = None,
    nulls: JoinNulls = "reject",
    shared_time: bool = False,
    each_change: bool = False,
) -> Joined:
    """Join two DataFrames on Spark; ``muntin.join`` says what each option means."""
    left, right = _taken("left", left, each_change), _taken("right", right, each_change)
    if left._frame.isStreaming != right._frame.isStreaming:
        hint = "give two streaming or two batch DataFrames"
        raise OptionError("right", "one side", "streams and the other doesn't", hint)
    spec = joined(left, right, on, within, how, layout, nulls, as_of, shared_time, each_change)
    for side, given in zip(SIDES, (left, right), strict=True):
        _check_columns(side, given._frame.columns, spec.side(side).keys)
    require(left._frame.sparkSession)
    inputs: dict[SideName, Input] = {"left": left.input, "right": right.input}
    return Joined(build_join(inputs, spec, suffix, buckets))


def _taken(
    side: SideName, given: Windowed | WindowedAggregate | DataFrame, each_change: bool
) -> Windowed:
    """A side as it was given; what other operators emit has its time and columns by itself."""
    if isinstance(given, WindowedAggregate | DataFrame):
        rows = given if isinstance(given, DataFrame) else given.results
        fed = fed_by(rows, each_change=each_change)
        if fed is not None and not fed.plan.joins:
            # What they emit was judged by them.
            marks = Marks(columns.WINDOW_END, max_ahead=None)
            given = Windowed(_frame=rows, _fed=fed, _marks=marks)
    if not isinstance(given, Windowed):
        hint = "write join(windowed(frame, time=…), …)"
        raise OptionError(side, type(given).__name__, "isn't windowed", hint)
    if each_change:
        return given
    return replace(given, _frame=pairable(given._frame, given._fed))


def _check_columns(side: SideName, there: Sequence[str], keys: Sequence[str]) -> None:
    for key in keys:
        if key not in there:
            hint = f"give some of {', '.join(there)}"
            raise OptionError("on", key, f"isn't a column of the {side} side", hint)
