"""The plan of a query on the local host: its operators, their inputs and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from muntin.engine import columns
from muntin.engine.operator import Operator
from muntin.hosts.chain import WINDOW_TIME, Spec, UpstreamOperator, end_ahead
from muntin.hosts.local.expressions import Expression
from muntin.hosts.local.messages import MessageReader, make_message_reader
from muntin.hosts.local.rejected import MARK_KINDS, LocalLayout
from muntin.hosts.rejected import RejectedLayout, layout_upstream
from muntin.model.errors import OptionError
from muntin.model.inputs import BY_GREATEST, BY_SOURCE, InputSpec, check_clocks
from muntin.model.joins import JoinSpec
from muntin.sources.frames import FrameSource
from muntin.sources.source import Source


@dataclass(frozen=True)
class SelectList:
    """A select list over an operator's results.

    Attributes:
        schema: The selected columns.
        apply: Computes the selected rows.
        keys: The columns that identify a row together with its window.
        by_window: Whether each row still stands for one window, with its keys and bounds.
        has_end: Whether `window_end` is unchanged.
    """

    schema: pl.Schema
    apply: Callable[[pl.DataFrame], pl.DataFrame]
    keys: tuple[str, ...] | None
    by_window: bool
    has_end: bool


@dataclass(frozen=True)
class Upstream(UpstreamOperator):
    """An operator whose results another one takes, in one query.

    Attributes:
        plan: Its plan.
        full: Whether only its full firings count; the others are filtered out.
        each_change: Whether the next operator takes every revision of a window.
        newest: Whether the next operator replaces a row by any later one, so that retractions are
            filtered out: the merged session follows them.
    """

    plan: Plan
    full: bool = False
    each_change: bool = False
    newest: bool = False

    @property
    def result_filter(self) -> pl.Expr | None:
        """The condition of the results that count; ``None`` where all do."""
        if self.full:
            return pl.col(columns.EMISSION) == "full"
        return pl.col(columns.EMISSION) != "retract" if self.newest and self.emits_again else None

    @property
    def schema(self) -> pl.Schema:
        """The columns that the next operator may name."""
        shown = dict(self.plan.shown)
        if columns.WINDOW_END in shown and WINDOW_TIME not in shown:
            shown[WINDOW_TIME] = shown[columns.WINDOW_END]
        return pl.Schema(shown)

    @property
    def whole_rows(self) -> bool:
        """True if a firing stays one row with the window's keys and bounds."""
        return self.plan.whole_rows

    def ahead(self, time: str | None) -> int | None:
        """Return by how much the least time still to come exceeds the watermark, microseconds."""
        end = end_ahead(self.plan.spec)
        if end is None or not self.plan.keeps_end:
            return None
        return {columns.WINDOW_END: end, WINDOW_TIME: end - 1}.get(time or "")

    def rows(self, results: pl.DataFrame) -> pl.DataFrame:
        """Return results as the rows that the next operator reads, with `window_time`."""
        if columns.WINDOW_END in results.columns and WINDOW_TIME not in results.columns:
            last = pl.col(columns.WINDOW_END)
            if results.schema[columns.WINDOW_END].is_temporal():
                last = last - pl.duration(microseconds=1)
            results = results.with_columns(last.alias(WINDOW_TIME))
        return results


@dataclass(frozen=True)
class Input:
    """An input as the user's query describes it.

    Attributes:
        rows: A source, or an upstream operator.
        time: The event time.
        where: The condition that a message must meet to be read.
        clock: The arrival time of a message, in place of the machine's clock.
        max_ahead: How far ahead of the clock a time may be, microseconds.
        offset: The columns of a message's partition and of its offset in it.
        hidden: Columns of the rows that messages don't have.
    """

    rows: Source | Upstream
    time: Expression | None = None
    where: Expression | None = None
    clock: Expression | None = None
    max_ahead: int | None = None
    offset: tuple[str, str] | None = None
    hidden: tuple[str, ...] = ()

    @property
    def schema(self) -> pl.Schema:
        """The columns that keys, times and aggregates may name."""
        schema = self.rows.schema
        return pl.Schema({n: kind for n, kind in schema.items() if n not in self.hidden})

    @property
    def fed(self) -> Upstream | None:
        """The upstream operator, if there is one."""
        return self.rows if isinstance(self.rows, Upstream) else None

    def reader(self) -> MessageReader:
        """Return the reader that turns its rows into messages.

        Raises:
            OptionError: When an option of the input can't work; the error names it.
        """
        schema, where = self.schema, self.where
        at_end = isinstance(self.time, str) and self.time == WINDOW_TIME
        if self.fed is not None and not at_end and WINDOW_TIME not in self.fed.plan.shown:
            # `window_time` is a column only where the query names it as the time.
            schema = pl.Schema({n: kind for n, kind in schema.items() if n != WINDOW_TIME})
        reader = make_message_reader(
            schema,
            time=self.time,
            where=where,
            clock=self.clock,
            max_ahead=self.max_ahead,
            offset=self.offset,
            malformed=getattr(self.rows, "malformed", None),
        )
        # An early result carries the end of its window, which the watermark hasn't reached.
        return replace(reader, result_filter=None if self.fed is None else self.fed.result_filter)


@dataclass(frozen=True)
class OperatorInput:
    """An input of an operator, ready to be read.

    Attributes:
        name: The side of a join; else the empty text.
        rows: A source, or an upstream operator.
        reader: The reader that turns its rows into messages.
        ahead: By how much the least time still to come exceeds the watermark of the upstream
            operator, microseconds; `None` where that isn't certain, and for sources.
    """

    name: str
    rows: Source | Upstream
    reader: MessageReader
    ahead: int | None = None

    @property
    def fed(self) -> Upstream | None:
        """The upstream operator, if there is one."""
        return self.rows if isinstance(self.rows, Upstream) else None


@dataclass(frozen=True)
class Plan:
    """A query, checked and complete.

    Attributes:
        spec: The query of the last operator.
        operator: That operator.
        inputs: Its inputs.
        results: The columns of results as the operator emits them.
        layout: The columns of rejected messages.
        period: How often something is due by the clock alone, microseconds.
        keys: The columns that identify a result together with its window; `None` where none do.
        shards: The number of shards of its state.
        asked: The number of shards that the user asked for, if any.
        again: Builds the plan with a shard count for every operator that didn't ask for one.
        shape: The select list over the results; `None` selects all columns.
    """

    spec: Spec
    operator: Operator
    inputs: tuple[OperatorInput, ...]
    results: pl.Schema
    layout: LocalLayout
    period: int | None
    keys: tuple[str, ...] | None
    shards: int
    asked: int | None
    again: Callable[[int], Plan]
    shape: SelectList | None = field(default=None)

    @property
    def joins(self) -> bool:
        """True if the last operator is a join."""
        return isinstance(self.spec, JoinSpec)

    @property
    def shown(self) -> pl.Schema:
        """The columns of results after the select list."""
        return self.results if self.shape is None else self.shape.schema

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The columns that identify a selected row together with its window."""
        return self.keys if self.shape is None else self.shape.keys

    @property
    def keeps_end(self) -> bool:
        """True if the selected rows still have the end of their window."""
        return self.shape is None or self.shape.has_end

    @property
    def whole_rows(self) -> bool:
        """True if a firing stays one row with the window's keys and bounds."""
        return self.shape is None or self.shape.by_window

    @property
    def fed(self) -> tuple[Upstream, ...]:
        """The upstream operators among its inputs."""
        return tuple(
            operator_input.fed for operator_input in self.inputs if operator_input.fed is not None
        )

    @property
    def plans(self) -> tuple[Plan, ...]:
        """This plan and all upstream plans of its chain."""
        return (self, *(plan for fed in self.fed for plan in fed.plan.plans))

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources of the chain, in the order in which batches read them."""
        sources: list[Source] = []
        for operator_input in self.inputs:
            sources += (
                operator_input.rows.plan.sources
                if isinstance(operator_input.rows, Upstream)
                else (operator_input.rows,)
            )
        return tuple(sources)

    @property
    def streams(self) -> bool:
        """True if at least one source is a stream."""
        return not all(isinstance(source, FrameSource) for source in self.sources)

    @property
    def ticks(self) -> int | None:
        """The shortest period of the chain's operators, microseconds; `None` without any."""
        periods = [plan.period for plan in self.plans if plan.period is not None]
        return min(periods, default=None)

    def select(
        self,
        apply: Callable[[pl.DataFrame], pl.DataFrame],
        keys: tuple[str, ...] | None,
        *,
        by_window: bool = False,
        has_end: bool = False,
    ) -> Plan:
        """Return the plan with a select list over the operator's results.

        Args:
            apply: Computes the selected rows.
            keys: The columns that identify a row together with its window.
            by_window: Whether each row still stands for one window, with its keys and bounds.
            has_end: Whether `window_end` is unchanged.
        """
        schema = apply(pl.DataFrame(schema=self.results)).schema
        return self._with_shape(SelectList(schema, apply, keys, by_window, has_end))

    def _with_shape(self, shape: SelectList) -> Plan:
        again = self.again
        return replace(self, shape=shape, again=lambda count: again(count)._with_shape(shape))

    def with_shards(self, count: int) -> Plan:
        """Return the plan with a shard count for every operator that didn't ask for one."""
        if all(plan.asked is not None or plan.shards == count for plan in self.plans):
            return self
        return self.again(count)


def has_clocks(source: Input, spec: InputSpec) -> bool:
    """Return whether each partition of an input's source has a clock.

    Raises:
        OptionError: When the query asks for clocks that the input can't have.
    """
    by_results = source.fed is not None
    check_clocks(spec, source.schema, results=by_results)
    partitioned = bool(getattr(source.rows, "has_partitions", False))
    if spec.watermark == BY_SOURCE and not partitioned:
        hint = 'leave it out, or give a list of columns, as in watermark=["device"]'
        raise OptionError("watermark", BY_SOURCE, "needs a source with partitions", hint)
    if spec.time is None or spec.clocks or spec.watermark == BY_GREATEST:
        return False
    return partitioned


def lay_out_rejected(own: pl.Schema, inputs: Mapping[str, Input], *, joins: bool) -> LocalLayout:
    """Return the columns of rejected messages of an operator and of those upstream of it."""
    upstreams = {
        name: layout_upstream(source.fed, source.fed.plan.layout.kinds)
        for name, source in inputs.items()
        if source.fed is not None
    }
    return RejectedLayout.of(own, upstreams, MARK_KINDS, joins=joins)


def set_upstream_shards(source: Input, count: int) -> Input:
    """Return an input with a shard count for upstream operators that didn't ask for one."""
    if source.fed is None:
        return source
    return replace(source, rows=replace(source.fed, plan=source.fed.plan.with_shards(count)))


def find_leaves(plan: Plan) -> Iterator[OperatorInput]:
    """Yield the inputs of a chain that read sources, in the order of `Plan.sources`."""
    for operator_input in plan.inputs:
        if isinstance(operator_input.rows, Upstream):
            yield from find_leaves(operator_input.rows.plan)
        else:
            yield operator_input
