"""The plan of a query on the local host: operators, what each of them reads, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import SIDE
from muntin.engine.operator import Operator
from muntin.hosts.chain import DEPTH, WINDOW_TIME, Spec, emits_again, end_ahead
from muntin.hosts.local.expressions import Expression
from muntin.hosts.local.messages import MessageReader, message_reader
from muntin.hosts.local.rejected import RejectedLayout, Upstreams
from muntin.model.errors import OptionError
from muntin.model.inputs import BY_GREATEST, BY_SOURCE, InputSpec, check_clocks
from muntin.model.joins import JoinSpec
from muntin.sources.frames import FrameSource
from muntin.sources.source import Source


@dataclass(frozen=True)
class Shape:
    """What is shown of an operator's results.

    Attributes:
        schema: The columns afterwards.
        apply: Makes the rows that are shown.
        keys: What identifies a row beside its window.
        by_window: Whether each row stays a window's, with its keys and bounds.
        has_end: Whether `window_end` stays what it was.
    """

    schema: pl.Schema
    apply: Callable[[pl.DataFrame], pl.DataFrame]
    keys: tuple[str, ...] | None
    by_window: bool = True
    has_end: bool = True


@dataclass(frozen=True)
class Upstream:
    """An operator whose results another one takes, in one query.

    Attributes:
        plan: Its plan.
        full: Whether only its full firings count; the others are filtered.
        each_change: Whether the next operator takes every revision of a window.
    """

    plan: Plan
    full: bool = False
    each_change: bool = False

    @property
    def schema(self) -> pl.Schema:
        """The columns that the next operator may name."""
        shown = dict(self.plan.shown)
        if columns.WINDOW_END in shown and WINDOW_TIME not in shown:
            shown[WINDOW_TIME] = shown[columns.WINDOW_END]
        return pl.Schema(shown)

    @property
    def emits_again(self) -> bool:
        """Whether it may emit a window more than once, and all of it counts."""
        return emits_again(self.plan.spec, full=self.full, streams=self.plan.streams)

    @property
    def depth(self) -> int:
        """How many windows of the chain its results have been through."""
        return self.plan.depth + (0 if self.plan.joins else 1)

    def ahead(self, time: str | None) -> int | None:
        """By how much the least time still to come exceeds the operator's watermark."""
        end = end_ahead(self.plan.spec)
        if end is None or not self.plan.keeps_end:
            return None
        return {columns.WINDOW_END: end, WINDOW_TIME: end - 1}.get(time or "")

    def rows(self, results: pl.DataFrame) -> pl.DataFrame:
        """Results as the rows that the next operator reads."""
        if columns.WINDOW_END in results.columns and WINDOW_TIME not in results.columns:
            last = pl.col(columns.WINDOW_END)
            if results.schema[columns.WINDOW_END].is_temporal():
                last = last - pl.duration(microseconds=1)
            results = results.with_columns(last.alias(WINDOW_TIME))
        return results


@dataclass(frozen=True)
class Input:
    """An input as a sentence says it.

    Attributes:
        rows: A source, or an operator before.
        time: The event time.
        where: Which messages are taken.
        clock: When a message arrived, in place of the machine's clock.
        max_ahead: How far ahead of the clock a time may be, microseconds.
        offset: The columns of a message's partition and of its offset in it.
        hidden: Columns of the rows that no message has.
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
        """The operator before, if there is one."""
        return self.rows if isinstance(self.rows, Upstream) else None

    def reader(self) -> MessageReader:
        """What makes messages of its rows.

        Raises:
            OptionError: Naming what can't work.
        """
        schema, where = self.schema, self.where
        at_end = isinstance(self.time, str) and self.time == WINDOW_TIME
        if self.fed is not None and not at_end and WINDOW_TIME not in self.fed.plan.shown:
            # It is a column only where it is asked for.
            schema = pl.Schema({n: kind for n, kind in schema.items() if n != WINDOW_TIME})
        reader = message_reader(
            schema,
            time=self.time,
            where=where,
            clock=self.clock,
            max_ahead=self.max_ahead,
            offset=self.offset,
            malformed=getattr(self.rows, "malformed", None),
        )
        if self.fed is not None and self.fed.full:
            full = pl.col(columns.EMISSION) == "full"
            kept = full if reader.where is None else reader.where & full
            # An early result of a window before carries that window's end, which is still to come.
            time = None if reader.time is None else pl.when(full).then(reader.time)
            reader = replace(reader, where=kept, time=time)
        return reader


@dataclass(frozen=True)
class OperatorInput:
    """One of an operator's inputs.

    Attributes:
        name: The side of a join; else the empty text.
        rows: A source, or an operator before.
        reader: What makes messages of its rows.
        ahead: Of results of another operator: by how much the least time still to come exceeds its
            watermark, microseconds; `None` where it doesn't follow.
    """

    name: str
    rows: Source | Upstream
    reader: MessageReader
    ahead: int | None = None

    @property
    def fed(self) -> Upstream | None:
        """The operator before, if there is one."""
        return self.rows if isinstance(self.rows, Upstream) else None


@dataclass(frozen=True)
class Plan:
    """A query, checked and complete.

    Attributes:
        spec: The query of the last operator.
        operator: That operator.
        inputs: What it reads.
        results: The columns of results as the operator emits them.
        layout: The columns of rejected messages.
        period: How often something is due though no message comes, microseconds.
        keys: What identifies a result beside its window; `None` where nothing does.
        shards: How many shards the keys are kept in.
        asked: How many were asked for, if a number was.
        again: Builds the same plan in so many shards, wherever no number was asked for.
        own_rejected: The columns of messages that the operator rejects itself.
        shape: What is shown of the results; `None` shows them as they are.
    """

    spec: Spec
    operator: Operator
    inputs: tuple[OperatorInput, ...]
    results: pl.Schema
    layout: RejectedLayout
    period: int | None
    keys: tuple[str, ...] | None
    shards: int
    asked: int | None
    again: Callable[[int], Plan]
    shape: Shape | None = field(default=None)

    @property
    def joins(self) -> bool:
        """Whether it is a join."""
        return isinstance(self.spec, JoinSpec)

    @property
    def shown(self) -> pl.Schema:
        """The columns of results as they are shown."""
        return self.results if self.shape is None else self.shape.schema

    @property
    def identity(self) -> tuple[str, ...] | None:
        """The columns that identify a shown row beside its window."""
        return self.keys if self.shape is None else self.shape.keys

    @property
    def keeps_end(self) -> bool:
        """Whether the end of a window stands in what is shown of it."""
        return self.shape is None or self.shape.has_end

    @property
    def whole_rows(self) -> bool:
        """Whether a firing stays one row with the window's keys and bounds."""
        return self.shape is None or self.shape.by_window

    @property
    def fed(self) -> tuple[Upstream, ...]:
        """The operators whose results are among what is read."""
        return tuple(one.fed for one in self.inputs if one.fed is not None)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """This plan, and those before it in its chain."""
        return (self, *(plan for fed in self.fed for plan in fed.plan.plans))

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources of the chain, in the order in which batches read them."""
        found: list[Source] = []
        for one in self.inputs:
            found += one.rows.plan.sources if isinstance(one.rows, Upstream) else (one.rows,)
        return tuple(found)

    @property
    def streams(self) -> bool:
        """Whether some input goes on."""
        return not all(isinstance(source, FrameSource) for source in self.sources)

    @property
    def depth(self) -> int:
        """How many windows of the chain its messages have been through at most."""
        return max((fed.depth for fed in self.fed), default=0)

    @property
    def ticks(self) -> int | None:
        """How often some operator of the chain has something due, microseconds."""
        periods = [plan.period for plan in self.plans if plan.period is not None]
        return min(periods, default=None)

    @property
    def upstreams(self) -> Upstreams:
        """What is known of its rejected messages where another operator takes its results."""
        has_join = any(plan.joins for plan in self.plans)
        marks = frozenset([*([SIDE] if has_join else []), *([DEPTH] if self.depth else [])])
        return Upstreams(self.layout.schema, self.joins, has_join, self.depth, marks)

    def with_shards(self, count: int) -> Plan:
        """The same in so many shards, wherever no number was asked for."""
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


def layout_of(own: pl.Schema, inputs: Mapping[str, Input], *, joins: bool) -> RejectedLayout:
    """The columns of rejected messages of an operator and of those before it."""
    fed = {name: one.fed.plan.upstreams for name, one in inputs.items() if one.fed is not None}
    return RejectedLayout.of(own, fed, joins=joins)


def resharded(given: Input, count: int) -> Input:
    """An input, where an operator before has so many shards if no number was asked for."""
    if given.fed is None:
        return given
    return replace(given, rows=replace(given.fed, plan=given.fed.plan.with_shards(count)))


def leaves(plan: Plan) -> Iterator[OperatorInput]:
    """The inputs of a chain that read sources, in the order of `Plan.sources`."""
    for one in plan.inputs:
        if isinstance(one.rows, Upstream):
            yield from leaves(one.rows.plan)
        else:
            yield one
