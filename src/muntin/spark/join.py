"""The sentence of joins: two windowed DataFrames in, one DataFrame of pairs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from muntin.model.axis import Axis, Duration, Length
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
from muntin.spark.inputs import Input
from muntin.spark.joining import JoinPlan, build_join
from muntin.spark.processor import REJECTED, RESULTS
from muntin.spark.session import require
from muntin.spark.windowed import Windowed

if TYPE_CHECKING:
    from muntin.spark.query import WindowedQuery
    from muntin.spark.sinks import SinkLike


class Joined:
    """A finished join of two streaming or batch DataFrames.

    ``windowed(joined, …)`` takes its pairs into windows, within one query.
    """

    def __init__(self, plan: JoinPlan) -> None:
        self.plan = plan

    @cached_property
    def results(self) -> DataFrame:
        """Every pair as a row.

        Columns: those of the left side; those of the right side but its keys, with the suffix
        where the left has the name too; and ``emission``: ``late`` for the pairs that a late
        message finds when it arrives, ``early`` for all others, ``full`` for what is told when
        no partner can come any more. Rows come in no order. A batch DataFrame gives ``full`` rows.
        """
        return self.plan.unpacked(RESULTS)

    @cached_property
    def rejected(self) -> DataFrame:
        """Every message that was not let in: its ``side``, its columns, ``reason``, ``watermark``.

        Reasons: ``late``, ``future`` (beyond ``max_ahead``), ``null_key``, ``null_time``,
        ``malformed``. A right column whose type isn't that of the left's has the suffix.
        """
        return self.plan.unpacked(REJECTED)

    def start(
        self,
        *,
        checkpoint: str,
        results: SinkLike | None = None,
        rejected: SinkLike | None = None,
        name: str | None = None,
        every: Duration | None = None,
        available_now: bool = False,
    ) -> WindowedQuery:
        """Start one streaming query that writes pairs and rejected messages.

        Each batch reaches the sinks at least once under its number; the sinks of muntin keep it
        once.

        Args:
            checkpoint: Folder of the query's progress and state; the same after a restart.
            results: A sink (``to_parquet``, ``to_duckdb``) or a function of a DataFrame and the
                batch number, as in ``foreachBatch``.
            rejected: The same for rejected messages.
            name: The query's name.
            every: A batch at most this often; as fast as possible where it isn't given.
            available_now: Read what is there now, then end.

        Raises:
            OptionError: When the frames are batch frames.
        """
        from muntin.spark.query import start

        return start(self.plan, checkpoint, results, rejected, name, every, available_now)

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
    other side's watermark leaves room for a partner; an outer join tells it alone then, so that no
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
        buckets: In how many shards the keys are kept; one a shuffle partition by default.

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
            cure = "write join(windowed(frame, time=…), …)"
            raise OptionError(side, type(given).__name__, "isn't windowed", cure)
        if given._fed is not None and given._fed.joins:
            cure = (
                'write windowed(pairs.results.drop("emission"), …), and start pairs.rejected apart'
            )
            raise OptionError(side, "pairs of a join", "can't tell what that join rejects", cure)
    if left._frame.isStreaming != right._frame.isStreaming:
        cure = "give two streaming or two batch DataFrames"
        raise OptionError("right", "one side", "streams and the other doesn't", cure)


def _side(name: str, given: Windowed, keys: tuple[str, ...], axis: Axis) -> Side:
    for key in keys:
        if key not in given._frame.columns:
            cure = f"give some of {', '.join(given._frame.columns)}"
            raise OptionError("on", key, f"isn't a column of the {name} side", cure)
    return given._side(keys, axis)
