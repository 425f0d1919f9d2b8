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
    """Join two streaming or batch DataFrames by equal columns and by time.

    Each pair comes out once, as soon as its second message is there. A message waits as long as the
    other side's watermark leaves room for a partner; an outer join emits it then, so that no
    message has both a partner and a null. A side may say ``.early(every=…)`` and
    ``.late(grace=…, every=…)`` to let its messages in periodically, and ``.keep(…)`` to bound how
    long they are kept by their own clock.

    Args:
        left: ``windowed(frame, time=…)``, with or without windows; a key isn't needed. Other
            windows, or their ``.full``, stand for themselves: each is a message at its
            ``window_end``. These, and another join's pairs, are taken in one query with the join,
            without their ``emission`` and ``revision``.
        right: The same; also the left side again.
        on: The columns that must be equal: a name, several, or pairs of a left and a right name.
        within: How far partners may lie apart: one length either way, or two: how far the right
            one may lie before the left one and after it; ``("-5 seconds", "10 seconds")`` is from
            5 to 10 seconds after it. ``muntin.rows(3)`` counts source offsets since each side's
            first. Without it partners share a window of each side that has
            windows, or a session of both; or have the same time, where ``on`` compares the times.
        as_of: Whether the partner of a left message is the right side's newest one of its time or
            before, its version; or how old that may be at most (``"1 hour"``). A left message is
            emitted once the right side's watermark has passed it, and isn't corrected after that.
        how: ``inner``, ``left``, ``right``, ``full``, ``semi`` (left messages with a partner,
            once), ``anti`` (those without); ``inner`` or ``left`` with ``as_of``.
        suffix: What is put behind the right side's column names that the left has too.
        layout: Whether state is sorted by ``time`` or by ``keys`` first; else it is chosen.
        buckets: In how many shards the keys are kept; one a core by default.
        nulls: What becomes of a message with NULL in a key, which has no partner: ``reject``, or
            ``unmatched``: it is emitted as one on the sides of which the join emits those.
        shared_time: Whether both sides go by one watermark, the later one of theirs, so that a side
            which is silent keeps nothing of the other waiting. What it then sends behind that
            watermark is late.
        each_change: Whether the pair of two windows is given again whenever one of them is emitted:
            the newest of both, with ``emission`` and ``revision`` as windows have them. Of outer
            joins what is unmatched is given at once, and again when a partner comes. ``on`` are
            the windows' keys, ``window_start`` and ``window_end``.

    Raises:
        OptionError: Naming what can't work: a column, a type, a side without bound.

    Example:
        >>> pairs = join(
        ...     windowed(shipments, time="time"),
        ...     windowed(orders, time="time"),
        ...     on="id",
        ...     within=("2 minutes", 0),
        ... )  # doctest: +SKIP
    """
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
