"""Chains operators within one streaming query on Spark.

Any operator's results may be an input of any other: windows over a join, a join of windows, windows
over windows, and so on. The results of the first operator become messages of the next. The messages
that the first one rejected and its figures are sent along as blobs in columns of their own, through
the task before the shuffle and the shard, and reach the query together with the next operator's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from muntin.engine import columns
from muntin.engine.joins.joiner import SIDE
from muntin.hosts.chain import (
    DEPTH,
    WINDOW_TIME,
    UpstreamOperator,
    end_ahead,
    refuse_revisions,
)
from muntin.hosts.progress import INNER
from muntin.hosts.rejected import RejectedLayout, layout_upstream
from muntin.model.axis import SECOND
from muntin.spark.host.internals.plans import format_plan, recall, remember
from muntin.spark.host.messages import BLOB, KIND, PASSED, PROGRESS
from muntin.spark.host.plan import Plan
from muntin.spark.host.unpack import Unpack
from muntin.spark.sources.inputs import OperatorInput

_PASSED_FIELDS = [
    StructField(KIND, StringType()),
    StructField(BLOB, BinaryType()),
    StructField(PROGRESS, StringType()),
]
# The SQL of a column, or of a moment that lies a number of seconds before it.
_TIME_TEXT = re.compile(r"\(?`?(?P<name>\w+)`?(?: - INTERVAL '(?P<before>[0-9.]+)' SECOND)?\)?")
_MARK_KINDS: dict[str, DataType] = {SIDE: StringType(), DEPTH: IntegerType()}


class RowByRow(Protocol):
    """Transforms results row by row before another operator takes them."""

    @property
    def by_window(self) -> bool:
        """True if each row still has the keys and bounds of one window, which identify it."""

    def of_frame(self, frame: DataFrame, unchanged: Sequence[str] = ()) -> DataFrame:
        """Return the transformed rows of results.

        A row that isn't a result has a value in the first of the ``unchanged`` columns; these rows
        stay.
        """

    def bounds(self, distances: Mapping[str, int]) -> dict[str, int]:
        """Return the columns of the transformed rows that follow a window's end.

        Each has the distance by which its least future value exceeds the watermark, microseconds.
        """


def filter_results(frame: DataFrame, condition: str, markers: Sequence[str]) -> DataFrame:
    """Return the rows for which a condition holds, and those that aren't results (``RowByRow``)."""
    others = f" OR {markers[0]} IS NOT NULL" if markers else ""
    return frame.where(f"({condition}){others}")


class _AddWindowTime:
    """Adds the last moment of each window as a column, one microsecond before its end."""

    by_window: ClassVar[bool] = True

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        """Return the rows with the last moment of their window."""
        last = f"{columns.WINDOW_END} - INTERVAL '0.000001' SECOND"
        return frame.withColumn(WINDOW_TIME, F.expr(last))

    def bounds(self, distances: Mapping[str, int]) -> dict[str, int]:
        """Return the columns that follow a window's end, with the last moment among them."""
        end = distances.get(columns.WINDOW_END)
        return dict(distances) if end is None else {**distances, WINDOW_TIME: end - 1}


def find_end_columns(
    select_list: Iterable[tuple[str, str]], distances: Mapping[str, int]
) -> dict[str, int]:
    """Return a select list's columns that follow a window's end, as ``RowByRow.bounds`` does."""
    bounds = {}
    for name, text in select_list:
        column = _TIME_TEXT.fullmatch(text)
        if column is not None and column["name"] in distances:
            bounds[name] = distances[column["name"]] - round(float(column["before"] or 0) * SECOND)
    return bounds


@dataclass(frozen=True)
class SparkUpstream(UpstreamOperator):
    """An operator whose results another one takes.

    Attributes:
        steps: The transformations of its results, in order.
        full: Whether only its full emissions count; the others are filtered out.
        newest: Whether the next operator replaces a row by any later one, so that retractions are
            filtered out: the merged session follows them.
    """

    plan: Plan
    steps: tuple[RowByRow, ...] = ()
    full: bool = False
    newest: bool = False

    @property
    def keeps_windows(self) -> bool:
        """True if each row of its results still has the keys and bounds of one window."""
        return all(step.by_window for step in self.steps)

    @property
    def result_filter(self) -> str | None:
        """The SQL condition of the results that count; ``None`` where all do."""
        if self.full:
            return f"{columns.EMISSION} = 'full'"
        return f"{columns.EMISSION} <> 'retract'" if self.newest and self.emits_again else None

    def find_time_ahead(self, time: str) -> int | None:
        """Return by how many microseconds the least future time exceeds the watermark.

        ``time`` is the next operator's time column; ``None`` where the distance doesn't follow from
        it.
        """
        end = end_ahead(self.plan.spec)
        if end is None:
            return None
        distances: Mapping[str, int] = {columns.WINDOW_END: end}
        for step in self.steps:
            distances = step.bounds(distances)
        return distances.get(time)

    def then(self, step: RowByRow) -> SparkUpstream:
        """Return this operator with one more transformation of its results."""
        return replace(self, steps=(*self.steps, step))

    def with_shards(self, count: int) -> SparkUpstream:
        """Return this operator with a shard count for every plan that didn't ask for one."""
        return replace(self, plan=self.plan.with_shards(count))

    def rows(self, side: str, rejected: StructType, renamed: Mapping[str, str]) -> DataFrame:
        """Return its results as rows, and its blobs and figures as rows of ``PASSED`` among them.

        ``side`` is that of the join that takes them. ``rejected`` are the columns of both
        operators' rejected messages, ``renamed`` those of its own that have a new name.
        """
        fields = [StructField(f.name, f.dataType) for f in self.plan.results_schema.fields]
        schema = StructType([*fields, *_PASSED_FIELDS])
        stage = side or ("join" if self.plan.is_join else INNER)
        rows = self.plan.output.mapInArrow(Unpack(schema, stage, side, rejected, renamed), schema)
        for step in self.steps:
            rows = step.of_frame(rows, PASSED)
        return rows


@dataclass(frozen=True)
class ConnectedInputs:
    """An operator's inputs, some of which may be results of other operators.

    Attributes:
        sources: The inputs; the rejected messages and figures of upstream operators come with their
            results.
        rejected: The columns of rejected messages of all these operators.
        layout: The layout of these columns; ``None`` without upstream operators.
    """

    sources: tuple[OperatorInput, ...]
    rejected: StructType
    layout: RejectedLayout[DataType] | None


def connect_upstreams(sources: tuple[OperatorInput, ...], rejected: StructType) -> ConnectedInputs:
    """Connect an operator to the upstream operators among its inputs.

    ``rejected`` are the columns of messages that it rejects itself.
    """
    upstreams = {
        source.name: source.input.upstream
        for source in sources
        if source.input.upstream is not None
    }
    if not upstreams:
        return ConnectedInputs(sources, rejected, None)
    joins = bool(sources[0].name)
    layouts = {
        name: layout_upstream(upstream, _kinds(upstream.plan.rejection_schema))
        for name, upstream in upstreams.items()
    }
    layout = RejectedLayout.of(_kinds(rejected), layouts, _MARK_KINDS, joins=joins)
    required = {columns.REASON, *([SIDE] if joins else [])}
    if any(one.depth for one in layouts.values()):
        required.add(DEPTH)
    schema = StructType(
        [StructField(name, kind, name not in required) for name, kind in layout.kinds.items()]
    )
    format_plan = layout.upstream_names
    return ConnectedInputs(
        tuple(_attach_upstream(one, schema, format_plan) for one in sources), schema, layout
    )


def _kinds(schema: StructType) -> dict[str, DataType]:
    return {field.name: field.dataType for field in schema}


def _attach_upstream(
    source: OperatorInput, rejected: StructType, renamed: Mapping[str, Mapping[str, str]]
) -> OperatorInput:
    """Return an input with the rejected messages and figures of its upstream operator."""
    upstream = source.input.upstream
    if upstream is None:
        return source
    rows = upstream.rows(source.name, rejected, renamed[source.name])
    return replace(source, input=replace(source.input, rows=rows))


# The alias of a DataFrame whose rows are revisions of windows; it shows in every plan over it.
_REVISIONS = "muntin_revisions"
_UPSTREAM = "_muntin_fed"


def mark_results(frame: DataFrame, upstream: SparkUpstream) -> DataFrame:
    """Return results as a DataFrame that `find_upstream` recognizes; plans show its revisions."""
    if upstream.emits_again:
        frame = frame.alias(_REVISIONS)
    remember(frame, _UPSTREAM, upstream)
    return frame


def find_upstream(frame: DataFrame, *, each_change: bool = False) -> SparkUpstream | None:
    """Return the operator whose unchanged results a DataFrame has; ``None`` for any other frame.

    A window with several rows is refused unless ``each_change`` lets its newest one count.
    """
    if not isinstance(frame, DataFrame):
        return None
    upstream: SparkUpstream | None = recall(frame, _UPSTREAM)
    is_derived = upstream is None and frame.isStreaming and _REVISIONS in format_plan(frame)
    if is_derived or (upstream is not None and upstream.emits_again and not each_change):
        spec = None if upstream is None else upstream.plan.spec
        refuse_revisions(spec, each_change=each_change)
    return upstream


def add_window_time(
    frame: DataFrame, upstream: SparkUpstream | None, time: object
) -> tuple[DataFrame, SparkUpstream | None]:
    """Return results with the last moment of each window, where the time option asks for it."""
    if upstream is None or not isinstance(time, str) or time != WINDOW_TIME:
        return frame, upstream
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    timed = isinstance(kinds.get(columns.WINDOW_END), TimestampType | TimestampNTZType)
    if not timed or WINDOW_TIME in kinds:
        return frame, upstream
    return _AddWindowTime().of_frame(frame), upstream.then(_AddWindowTime())


def drop_emission(frame: DataFrame, upstream: SparkUpstream | None) -> DataFrame:
    """Return results as a side of a join, without emission columns, since pairs have their own."""
    return frame if upstream is None else frame.drop(columns.EMISSION, columns.REVISION)
