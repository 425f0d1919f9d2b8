"""Complete windows and joins on the local host, which can be read, explained or started."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from muntin.engine import columns
from muntin.explain.joins import explain_join
from muntin.explain.size import Rates
from muntin.explain.windows import Circumstances, describe_spec
from muntin.hosts.definition import Definition, StartOptions, WindowDefinition, explain_chain
from muntin.hosts.local.expressions import parse_sql_expression
from muntin.hosts.local.plan import LocalPlan, LocalUpstream
from muntin.hosts.local.run import BatchOutput, OperatorRun
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.pipeline import Order
from muntin.model.spec import WindowSpec
from muntin.sources.frames import FrameSource
from muntin.sources.source import Source
from muntin.state.blobs import MemoryBlobs

if TYPE_CHECKING:
    from muntin.hosts.local.query import LocalQuery

# A time in microseconds as Polars shows its type, with its zone.
_TIMES = re.compile(r"Datetime\(time_unit='us', time_zone=(?:None|'([^']+)')\)")
_LOG = logging.getLogger(__name__)


def _shorten(match: re.Match[str]) -> str:
    return f"Datetime({match[1]})" if match[1] else "Datetime"


class LocalDefinition(Definition[LocalPlan, "LocalQuery"]):
    """A complete query that runs in this process."""

    def __init__(self, plan: LocalPlan) -> None:
        super().__init__(plan)
        self._sort_results: Callable[[pl.DataFrame], pl.DataFrame] = lambda rows: rows

    def _columns(self) -> list[tuple[str, str]]:
        schema = self.plan.output_schema
        return [(name, _TIMES.sub(_shorten, str(kind))) for name, kind in schema.items()]

    @cached_property
    def _output(self) -> BatchOutput:
        if self.plan.reads_streams:
            problem = "is a source that may go on, so it has no frame of results"
            hint = (
                "write query = windows.start(checkpoint=None), then query.await_end(5) and "
                "query.frame(); with available_now=True it ends when everything is read"
            )
            raise OptionError("results", "a stream", problem, hint)
        self.plan.check_ends()
        output = _run_once(self.plan)
        if output.results.is_empty() and not output.rejected.is_empty():
            _warn_of_no_results(self.plan, output.rejected)
        return output

    @property
    def results(self) -> Any:
        """The results as a frame of the input's kind: Polars, pandas or Arrow."""
        return self._to_input_kind(self._sort_results(self._output.results))

    def sort_results(self, order: Order) -> None:
        """Sort the results of finite inputs, and limit their number if the order does.

        Raises:
            OptionError: When the input is a stream, whose results can't be sorted, or a sort key
                can't be computed in this process.
        """
        self._require_finite()
        schema = self.plan.output_schema
        keys = [parse_sql_expression(schema, "ORDER BY", one.text) for one in order.by]
        down = [one.descends for one in order.by]
        # Without NULLS FIRST or LAST, a null is less than every value, as in Spark.
        last = [one.descends if one.nulls is None else one.nulls == "last" for one in order.by]

        def sort_results(rows: pl.DataFrame) -> pl.DataFrame:
            if keys:
                rows = rows.sort(keys, descending=down, nulls_last=last, maintain_order=True)
            return rows if order.limit is None else rows.head(order.limit)

        self._sort_results = sort_results

    @property
    def rejected(self) -> Any:
        """The rejected messages, unchanged, with `reason` and `watermark`.

        Reasons: `late`, `future` (beyond `max_ahead`), `null_key`, `null_time`, `malformed` (can't
        be decoded). For windows also `overflow`, whose row isn't a message, but the key and start
        of a window whose integer sum exceeded 64 bits. A join adds `side`.
        """
        return self._to_input_kind(self._output.rejected)

    def _to_input_kind(self, rows: pl.DataFrame) -> Any:
        source = self.plan.sources[0]
        return source.give_back(rows) if isinstance(source, FrameSource) else rows

    @property
    def upstream(self) -> LocalUpstream:
        """The query as an upstream operator of another one."""
        return LocalUpstream(self.plan)

    def _start(self, options: StartOptions) -> LocalQuery:
        from muntin.hosts.local.query import start_query

        self.plan.check_ends()
        return start_query(self.plan, options)


class LocalWindowedAggregate(LocalDefinition, WindowDefinition["LocalWindowedAggregate"]):
    """A complete windowed aggregation on the local host."""

    def _take_full(self) -> Any:
        if self.plan.reads_streams:
            return FullEmissions(self.plan)
        full = self._output.results.filter(pl.col(columns.EMISSION) == "full")
        return self._to_input_kind(full)

    def _top(self, n: int, by: Any, per: Any, ascending: Any) -> LocalWindowedAggregate:
        from muntin.hosts.local.window_rows import rank_windows

        upstream = self.upstream
        if upstream.emits_again:
            _ = self.full  # raises if full emissions aren't whole results
            upstream = LocalUpstream(self.plan, full=True)
        return LocalWindowedAggregate(rank_windows(upstream, n, by, per, ascending))

    def _describe(self, rates: Rates | None) -> str:
        return explain_local_plan(self.plan, rates)


class LocalJoined(LocalDefinition):
    """A complete join on the local host; `windowed` takes its pairs into windows."""

    def explain(self) -> str:
        """Describe the condition of the join, how long messages wait, and its state."""
        return explain_local_plan(self.plan)


class FullEmissions(LocalDefinition):
    """The full emissions of windows, which `windowed` and `join` take."""

    @property
    def upstream(self) -> LocalUpstream:
        """The windows as an upstream operator of another query."""
        return LocalUpstream(self.plan, full=True)


def _run_once(plan: LocalPlan) -> BatchOutput:
    """Read all sources of a plan to their ends, and emit each window in full."""
    run = OperatorRun(plan, lambda operator, shard: MemoryBlobs())
    read = (_read_whole(source) for source in plan.sources)
    return run.step(read, time.time_ns() // 1000, None, final=True)


def _warn_of_no_results(plan: LocalPlan, rejected: pl.DataFrame) -> None:
    """Warn that all messages were rejected, with a text that may be a time in another form."""
    counts = ", ".join(
        f"{count:,} as {reason}"
        for reason, count in rejected[columns.REASON].value_counts().iter_rows()
    )
    hint = ""
    time = plan.spec.time if isinstance(plan.spec, WindowSpec) else None
    if time is not None and rejected.schema.get(time) == pl.String():
        texts = rejected.filter(pl.col(columns.REASON) == "malformed")[time].drop_nulls()
        if len(texts):
            hint = (
                f". One has {time}={texts[0]!r}; parse times that aren't ISO texts, as in "
                f"time=pl.col({time!r}).str.to_datetime('%d/%m/%Y %H:%M')"
            )
    _LOG.warning("no message is in a window: %s; .rejected has the messages%s", counts, hint)


def _read_whole(source: Source) -> Iterator[pl.DataFrame]:
    reader = source.open()
    try:
        yield from reader.read(None, reader.plan(None, None).end)
    finally:
        reader.close()


def explain_local_plan(plan: LocalPlan, rates: Rates | None = None) -> str:
    """Describe a plan, after the plans of its upstream operators."""

    def describe(operator_plan: LocalPlan) -> str:
        if isinstance(operator_plan.spec, JoinSpec):
            return explain_join(operator_plan.spec, operator_plan.shards, None)
        read = operator_plan.inputs[0]
        circumstances = Circumstances(
            operator_plan.shards,
            None,
            rates,
            where=read.reader.where_text,
            source=None if operator_plan.upstreams else repr(read.rows),
            local=True,
            finite=not operator_plan.reads_streams,
        )
        return describe_spec(operator_plan.spec, circumstances)

    return explain_chain(plan, describe)
