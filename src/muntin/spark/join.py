"""The sentence of joins: two windowed DataFrames in, one DataFrame of pairs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from pyspark.sql import DataFrame

from muntin.model.axis import Axis, Length
from muntin.model.errors import OptionError
from muntin.model.joins import (
    How,
    JoinSpec,
    On,
    Side,
    SideName,
    StateLayout,
    bound_of,
    pairs_of,
)
from muntin.spark.explain import explain
from muntin.spark.join_plan import build_join
from muntin.spark.query_definition import QueryDefinition
from muntin.spark.session import require
from muntin.spark.sources.inputs import Input
from muntin.spark.windowed import Windowed


class Joined(QueryDefinition):
    """A finished join of two streaming or batch DataFrames.

    ``windowed(joined, …)`` takes its pairs into windows, within one query.
    """

    @cached_property
    def results(self) -> DataFrame:
        """Every pair as a row.

        Columns: those of the left side; those of the right side but its keys, with the suffix
        where the left has the name too; and ``emission``: ``late`` for the pairs that a late
        message finds when it arrives, ``early`` for all others, ``full`` for what is emitted when
        no partner can come any more. Rows come in no order. A batch DataFrame gives ``full`` rows.
        """
        return self._emitted()

    def explain(self) -> str:
        """Who are partners, how long one waits, and how the state lies, in words."""
        return explain(self.plan)


def join(
    left: Windowed,
    right: Windowed,
    *,
    on: On,
    within: Length | Sequence[Length | int] | None = None,
    how: How = "inner",
    suffix: str = "_right",
    layout: StateLayout | None = None,
    buckets: int | None = None,
) -> Joined:
    """Join two streaming or batch DataFrames by equal columns and by time.

    Each pair comes out once, as soon as its second message is there. A message waits as long as the
    other side's watermark leaves room for a partner; an outer join emits it then, so that no
    message has both a partner and a null. A side may say ``.early(every=…)`` and
    ``.late(grace=…, every=…)`` to let its messages in periodically, and ``.keep(…)`` to bound how
    long they are kept by their own clock.

    Args:
        left: ``windowed(frame, time=…)``, with or without windows; a key isn't needed.
        right: The same; also the left side again.
        on: The columns that must be equal: a name, several, or pairs of a left and a right name.
        within: How far partners may lie apart: one length either way, or two: how far the right
            one may lie before the left one and after it. ``muntin.rows(3)`` counts source offsets
            since each side's first. Without it partners share a window of each side that has
            windows, or a session of both.
        how: ``inner``, ``left``, ``right``, ``full``, ``semi`` (left messages with a partner,
            once), ``anti`` (those without).
        suffix: What is put behind the right side's column names that the left has too.
        layout: Whether state is sorted by ``time`` or by ``keys`` first; else it is chosen.
        buckets: In how many shards the keys are kept; one a core by default.

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
    _check_sides(left, right)
    # What other windows emit once is taken as any DataFrame's rows are.
    left, right = replace(left, _fed=None), replace(right, _fed=None)
    keys, bound = pairs_of(on), bound_of(within, left._windows, right._windows)
    spec = JoinSpec(
        _side("left", left, tuple(one for one, _ in keys), bound.axis),
        _side("right", right, tuple(other for _, other in keys), bound.axis),
        bound,
        how,
        layout,
    )
    require(left._frame.sparkSession)
    inputs: dict[SideName, Input] = {"left": left.input, "right": right.input}
    return Joined(build_join(inputs, spec, suffix, buckets))


def _check_sides(left: Windowed, right: Windowed) -> None:
    for side, given in (("left", left), ("right", right)):
        if not isinstance(given, Windowed):
            hint = "write join(windowed(frame, time=…), …)"
            raise OptionError(side, type(given).__name__, "isn't windowed", hint)
        if given._fed is not None and given._fed.plan.joins:
            hint = (
                'write windowed(pairs.results.drop("emission"), …), and start pairs.rejected apart'
            )
            raise OptionError(side, "pairs of a join", "doesn't know what that join rejects", hint)
    if left._frame.isStreaming != right._frame.isStreaming:
        hint = "give two streaming or two batch DataFrames"
        raise OptionError("right", "one side", "streams and the other doesn't", hint)


def _side(name: str, given: Windowed, keys: tuple[str, ...], axis: Axis) -> Side:
    for key in keys:
        if key not in given._frame.columns:
            hint = f"give some of {', '.join(given._frame.columns)}"
            raise OptionError("on", key, f"isn't a column of the {name} side", hint)
    return given._side(keys, axis)
