"""The plan of a query on the local host: its operators, their inputs and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import SIDE
from muntin.engine.operator import Operator
from muntin.hosts.chain import DEPTH, WINDOW_TIME, Spec, UpstreamOperator, end_ahead
from muntin.hosts.local.expressions import ColumnExpression, resolve_condition
from muntin.hosts.local.messages import MessageReader, check_offset, check_time, resolve_named
from muntin.hosts.rejected import RejectedLayout, layout_upstream
from muntin.model.errors import OptionError
from muntin.model.inputs import (
    BY_GREATEST,
    BY_SOURCE,
    InputSpec,
    Limits,
    check_clocks,
)
from muntin.model.joins import JoinSpec
from muntin.sources.frames import FrameSource
from muntin.sources.source import Source

MARK_KINDS: Mapping[str, pl.DataType] = {SIDE: pl.String(), DEPTH: pl.Int32()}
LocalLayout = RejectedLayout[pl.DataType]


@dataclass(frozen=True)
class CompiledSelectList:
    """A select list over an operator's results.

    Attributes:
        schema: The selected columns.
        apply: Computes the selected rows.
        keys: The columns that identify a row together with its window.
        by_window: Whether each row still has the keys and bounds of one window.
        has_end: Whether `window_end` is unchanged.
    """

    schema: pl.Schema
    apply: Callable[[pl.DataFrame], pl.DataFrame]
    keys: tuple[str, ...] | None
    by_window: bool
    has_end: bool


@dataclass(frozen=True)
class LocalUpstream(UpstreamOperator):
    """An operator whose results another one takes, in one query.

    Attributes:
        plan: Its plan.
        full: Whether only its full emissions count; the others are filtered out.
        each_change: Whether the next operator takes every revision of a window.
        newest: Whether the next operator replaces a row by any later one, so that retractions are
            filtered out, since the row of the merged session follows them.
    """

    has_partitions: ClassVar[bool] = False
    malformed_column: ClassVar[None] = None

    plan: LocalPlan
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
        kinds = dict(self.plan.output_schema)
        if columns.WINDOW_END in kinds and WINDOW_TIME not in kinds:
            kinds[WINDOW_TIME] = kinds[columns.WINDOW_END]
        return pl.Schema(kinds)

    @property
    def keeps_windows(self) -> bool:
        """True if each row of its results still has the keys and bounds of one window."""
        return self.plan.keeps_windows

    def find_time_ahead(self, time: str | None) -> int | None:
        """Return by how much the least time still to come exceeds the watermark, microseconds."""
        end = end_ahead(self.plan.spec)
        if end is None or not self.plan.keeps_end:
            return None
        return {columns.WINDOW_END: end, WINDOW_TIME: end - 1}.get(time or "")

    def add_window_time(self, results: pl.DataFrame) -> pl.DataFrame:
        """Return results with `window_time`, which the next operator may read."""
        if columns.WINDOW_END in results.columns and WINDOW_TIME not in results.columns:
            last = pl.col(columns.WINDOW_END)
            if results.schema[columns.WINDOW_END].is_temporal():
                last = last - pl.duration(microseconds=1)
            results = results.with_columns(last.alias(WINDOW_TIME))
        return results


InputRows = Source | LocalUpstream
"""The rows of an input: a source, or the results of an upstream operator."""


@dataclass(frozen=True)
class LocalInput:
    """An input as the user's query describes it.

    Attributes:
        rows: A source, or an upstream operator.
        time: The event time.
        where: The condition that a message must meet to be read.
        clock: The arrival time of a message, in place of the machine's clock.
        limits: How far from the clock a time may be.
        offset: The columns of a message's partition and of its offset in it.
        hidden: Columns of the rows that messages don't have.
    """

    rows: InputRows
    time: ColumnExpression | None = None
    where: ColumnExpression | None = None
    clock: ColumnExpression | None = None
    limits: Limits = ()
    offset: tuple[str, str] | None = None
    hidden: tuple[str, ...] = ()

    @property
    def schema(self) -> pl.Schema:
        """The columns that keys, times and aggregates may name."""
        schema = self.rows.schema
        return pl.Schema({n: kind for n, kind in schema.items() if n not in self.hidden})

    @property
    def upstream(self) -> LocalUpstream | None:
        """The upstream operator, if there is one."""
        return self.rows if isinstance(self.rows, LocalUpstream) else None

    def make_reader(self) -> MessageReader:
        """Build the reader that turns its rows into messages.

        Raises:
            OptionError: When an option of the input can't work; the error names it.
        """
        schema = self.schema
        at_end = isinstance(self.time, str) and self.time == WINDOW_TIME
        if (
            self.upstream is not None
            and not at_end
            and WINDOW_TIME not in self.upstream.plan.output_schema
        ):
            # `window_time` is a column only where the query names it as the time.
            schema = pl.Schema({n: kind for n, kind in schema.items() if n != WINDOW_TIME})
        check_offset(schema, self.offset)
        name, time = (
            resolve_named(schema, "time", self.time) if self.time is not None else (None, None)
        )
        clock = None if self.clock is None else resolve_named(schema, "clock", self.clock)[1]
        where = None if self.where is None else resolve_condition(schema, "where", self.where)
        for option, expression in (("time", time), ("clock", clock)):
            if expression is not None:
                check_time(option, schema, expression)
        return MessageReader(
            schema,
            time=time,
            time_name=name,
            where=where,
            where_text=None if self.where is None else str(self.where),
            # The end of an early result's window lies ahead of the watermark.
            result_filter=None if self.upstream is None else self.upstream.result_filter,
            clock=clock,
            limits=self.limits,
            malformed=self.rows.malformed_column,
        )


@dataclass(frozen=True)
class LocalOperatorInput:
    """An input of an operator, ready to be read.

    Attributes:
        name: The side of a join; else the empty text.
        rows: A source, or an upstream operator.
        reader: The reader that turns its rows into messages.
        ahead: By how much the least time still to come exceeds the watermark of the upstream
            operator, microseconds; `None` where that isn't certain, and for sources.
    """

    name: str
    rows: InputRows
    reader: MessageReader
    ahead: int | None = None

    @property
    def upstream(self) -> LocalUpstream | None:
        """The upstream operator, if there is one."""
        return self.rows if isinstance(self.rows, LocalUpstream) else None

    @property
    def is_finite(self) -> bool:
        """True if the rows end, as those of frames do."""
        if self.upstream is not None:
            return not self.upstream.plan.reads_streams
        return isinstance(self.rows, FrameSource)


@dataclass(frozen=True)
class LocalPlan:
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
        requested_shards: The number of shards that the user asked for, if any.
        rebuild: Builds the plan with a shard count for every operator that didn't ask for one.
        select_list: The select list over the results; `None` selects all columns.
    """

    spec: Spec
    operator: Operator
    inputs: tuple[LocalOperatorInput, ...]
    results: pl.Schema
    layout: LocalLayout
    period: int | None
    keys: tuple[str, ...] | None
    shards: int
    requested_shards: int | None
    rebuild: Callable[[int], LocalPlan]
    select_list: CompiledSelectList | None = field(default=None)

    @property
    def is_join(self) -> bool:
        """True if the last operator is a join."""
        return isinstance(self.spec, JoinSpec)

    @property
    def output_schema(self) -> pl.Schema:
        """The columns of results after the select list."""
        return self.results if self.select_list is None else self.select_list.schema

    @cached_property
    def no_results(self) -> pl.DataFrame:
        """The results of a batch without any."""
        return pl.DataFrame(schema=self.output_schema)

    @cached_property
    def no_rejected(self) -> pl.DataFrame:
        """The rejected messages of a batch without any."""
        return pl.DataFrame(schema=dict(self.layout.kinds))

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The columns that identify a selected row together with its window."""
        return self.keys if self.select_list is None else self.select_list.keys

    @property
    def keeps_end(self) -> bool:
        """True if the selected rows still have the end of their window."""
        return self.select_list is None or self.select_list.has_end

    @property
    def keeps_windows(self) -> bool:
        """True if each row of its results still has the keys and bounds of one window."""
        return self.select_list is None or self.select_list.by_window

    @property
    def upstreams(self) -> tuple[LocalUpstream, ...]:
        """The upstream operators among its inputs."""
        return tuple(
            operator_input.upstream
            for operator_input in self.inputs
            if operator_input.upstream is not None
        )

    @property
    def plans(self) -> tuple[LocalPlan, ...]:
        """This plan and all upstream plans of its chain."""
        return (self, *(plan for upstream in self.upstreams for plan in upstream.plan.plans))

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources of the chain, in the order in which batches read them."""
        sources: list[Source] = []
        for operator_input in self.inputs:
            sources += (
                operator_input.rows.plan.sources
                if isinstance(operator_input.rows, LocalUpstream)
                else (operator_input.rows,)
            )
        return tuple(sources)

    @property
    def reads_streams(self) -> bool:
        """True if at least one source is a stream."""
        return not all(operator_input.is_finite for operator_input in self.inputs)

    @property
    def tick_period(self) -> int | None:
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
    ) -> LocalPlan:
        """Return the plan with a select list over the results; see `CompiledSelectList`."""
        schema = apply(pl.DataFrame(schema=self.results)).schema
        return self._with_select_list(CompiledSelectList(schema, apply, keys, by_window, has_end))

    def _with_select_list(self, select_list: CompiledSelectList) -> LocalPlan:
        rebuild = self.rebuild
        return replace(
            self,
            select_list=select_list,
            rebuild=lambda count: rebuild(count)._with_select_list(select_list),
        )

    def check_ends(self) -> None:
        """Refuse an idle time of inputs that end; `muntin.testing.run` gives them batches."""
        for plan in self.plans:
            for operator_input in plan.inputs:
                side = operator_input.name
                spec = plan.spec.side(side) if isinstance(plan.spec, JoinSpec) else plan.spec  # type: ignore[arg-type]
                spec.check_end(operator_input.is_finite, f" ({side})" if side else "")

    def with_shards(self, count: int) -> LocalPlan:
        """Return the plan with a shard count for every operator that didn't ask for one."""
        if all(plan.requested_shards is not None or plan.shards == count for plan in self.plans):
            return self
        return self.rebuild(count)


def has_clocks(source: LocalInput, spec: InputSpec) -> bool:
    """Return whether each partition of an input's source has a clock.

    Raises:
        OptionError: When the query asks for clocks that the input can't have.
    """
    by_results = source.upstream is not None
    check_clocks(spec, source.schema, results=by_results)
    partitioned = source.rows.has_partitions
    if spec.watermark == BY_SOURCE and not partitioned:
        hint = 'leave it out, or give a list of columns, as in watermark=["device"]'
        raise OptionError("watermark", BY_SOURCE, "needs a source with partitions", hint)
    if spec.time is None or spec.clocks or spec.watermark == BY_GREATEST:
        return False
    return partitioned


def lay_out_rejected(
    own: pl.Schema, inputs: Mapping[str, LocalInput], *, joins: bool
) -> LocalLayout:
    """Return the columns of rejected messages of an operator and of those upstream of it."""
    upstreams = {
        name: layout_upstream(source.upstream, source.upstream.plan.layout.kinds)
        for name, source in inputs.items()
        if source.upstream is not None
    }
    return RejectedLayout.of(own, upstreams, MARK_KINDS, joins=joins)


def set_upstream_shards(source: LocalInput, count: int) -> LocalInput:
    """Return an input with a shard count for upstream operators that didn't ask for one."""
    if source.upstream is None:
        return source
    return replace(
        source, rows=replace(source.upstream, plan=source.upstream.plan.with_shards(count))
    )


def find_leaves(plan: LocalPlan) -> Iterator[LocalOperatorInput]:
    """Yield the inputs of a chain that read sources, in the order of `Plan.sources`."""
    for operator_input in plan.inputs:
        if isinstance(operator_input.rows, LocalUpstream):
            yield from find_leaves(operator_input.rows.plan)
        else:
            yield operator_input


def fit_own(layout: LocalLayout, rejected: pl.DataFrame) -> pl.DataFrame:
    """Return messages that the operator itself rejected, in the layout of the chain."""
    return _cast(layout, layout.add_columns(rejected))


def fit_upstream(layout: LocalLayout, rejected: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return messages that an upstream operator rejected, in the layout of the chain.

    Args:
        layout: The layout.
        rejected: The messages.
        name: The input that the operator feeds: the side of a join, or the empty text.
    """
    rejected = rejected.rename(dict(layout.upstream_names[name]), strict=False)
    if name and SIDE in rejected.columns:
        path = pl.concat_str([pl.lit(name), pl.col(SIDE)], separator="/", ignore_nulls=True)
        rejected = rejected.with_columns(path.alias(SIDE))
    elif name:
        rejected = rejected.with_columns(pl.lit(name).alias(SIDE))
    # A message without a depth was rejected by the first operator of the chain.
    values = {one: pl.lit(1 if one == DEPTH else None) for one in layout.kinds}
    lacking = [value.alias(one) for one, value in values.items() if one not in rejected.columns]
    return _cast(layout, rejected.with_columns(lacking))


def _cast(layout: LocalLayout, rejected: pl.DataFrame) -> pl.DataFrame:
    if rejected.columns == [*layout.kinds] and rejected.dtypes == [*layout.kinds.values()]:
        return rejected
    return rejected.select(pl.col(name).cast(kind) for name, kind in layout.kinds.items())
