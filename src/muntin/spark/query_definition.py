"""Windows or a join, complete: to be looked at, explained or started."""

from __future__ import annotations

from functools import cached_property
from os import PathLike, fspath
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muntin.engine.operator import REJECTED, RESULTS
from muntin.explain.glance import format_html_summary, format_summary
from muntin.model.axis import Duration
from muntin.model.errors import OptionError
from muntin.model.other_words import missing_word
from muntin.model.pipeline import Order, Ordered
from muntin.spark.host.chain import Upstream, marked
from muntin.spark.host.plan import Plan

if TYPE_CHECKING:
    from muntin.sinks.sink import SinkLike
    from muntin.spark.query import WindowedQuery


class QueryDefinition:
    """What finished windows and joins have in common.

    Args:
        plan: The pipeline.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._order: Order | None = None

    def __repr__(self) -> str:
        return format_summary(self.plan.spec, self._columns())

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(missing_word(name, complete=True))

    def _repr_html_(self) -> str:
        return format_html_summary(self.plan.spec, self._columns())

    def _columns(self) -> list[tuple[str, str]]:
        """The columns of the results, with their types in Spark's words."""
        return [(f.name, f.dataType.simpleString()) for f in self.results.schema.fields]

    @cached_property
    def results(self) -> DataFrame:
        """The results as rows."""
        found = self._emitted()
        if self._order is not None:
            return _shown(found, self._order)
        return marked(found, self._upstream())

    def show_in(self, order: Order) -> None:
        """Show the results of a batch in an order, and perhaps only so many.

        Raises:
            OptionError: When the input streams, so that there is no last row.
        """
        if self.plan.streams:
            problem = "never ends on a stream"
            raise OptionError("ORDER BY", "a stream", problem, "order the table that you write to")
        self._order = order
        self.__dict__.pop("results", None)
        _ = self.results.schema  # Spark looks at the order now, not when somebody reads.

    def _upstream(self) -> Upstream:
        """The query as what another one takes its results from."""
        return Upstream(self.plan.feeding())

    def _emitted(self) -> DataFrame:
        return self.plan.unpacked(RESULTS)

    @cached_property
    def rejected(self) -> DataFrame:
        """Every message that was not let in, as it came, with ``reason`` and ``watermark``.

        Reasons: ``late``, ``future`` (beyond ``max_ahead``), ``null_key``, ``null_time``,
        ``malformed`` (what can't be parsed); of windows ``overflow`` (not a message: the key and
        start of a window whose integer sum left 64 bits). Of a join also ``side``; a right column
        whose type isn't that of the left's has the suffix.
        """
        return self.plan.unpacked(REJECTED)

    def start(
        self,
        *,
        checkpoint: str | PathLike[str],
        results: SinkLike | None = None,
        rejected: SinkLike | None = None,
        name: str | None = None,
        every: Duration | None = None,
        available_now: bool = False,
    ) -> WindowedQuery:
        """Start one streaming query that writes results and rejected messages.

        Each batch reaches the sinks at least once under its number, and a repeated batch carries
        the same rows; the sinks of muntin make that exactly once.

        Args:
            checkpoint: Folder of the query's progress and state; the same after a restart.
            results: A sink (``to_parquet``, ``to_duckdb``, ``to_delta``, ``to_iceberg``,
                ``to_postgres``, ``to_kafka``) or a function of a DataFrame and the batch number, as
                in ``foreachBatch``.
            rejected: The same for rejected messages.
            name: The query's name.
            every: A batch at most this often; as fast as possible where it isn't given.
            available_now: Read what is there now, then end.

        Raises:
            OptionError: When the input is a batch DataFrame.
        """
        from muntin.spark.starting import start

        folder = fspath(checkpoint)
        return start(self.plan, folder, results, rejected, name, every, available_now)


def _shown(frame: DataFrame, order: Order) -> DataFrame:
    """The rows of a batch in an order, and perhaps only so many."""
    frame = frame.orderBy(*map(_sorting, order.by)) if order.by else frame
    return frame if order.limit is None else frame.limit(order.limit)


def _sorting(one: Ordered) -> Column:
    way = {
        (False, None): Column.asc,
        (False, "first"): Column.asc_nulls_first,
        (False, "last"): Column.asc_nulls_last,
        (True, None): Column.desc,
        (True, "first"): Column.desc_nulls_first,
        (True, "last"): Column.desc_nulls_last,
    }
    return way[one.descends, one.nulls](F.expr(one.text))
