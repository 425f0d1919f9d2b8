"""What one operator emits that goes on into another, within one query, and all that goes beside it.

Any operator's results may be an input of any other: windows over a join, a join of windows, windows
over windows, and so on. It is one streaming query. What the first operator emits becomes messages
of the next; the messages that it rejected and its figures travel with them, as blobs in columns of
their own, through the task before the shuffle and the shard, so that the query has them beside its
own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
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
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.spark.host.internals.plans import names, remember, remembered
from muntin.spark.host.internals.versions import arrow_schema
from muntin.spark.host.messages import BLOB, KIND, PASSED, PROGRESS
from muntin.spark.host.plan import REJECTED, RESULTS, OperatorInput, Plan
from muntin.spark.host.progress import STAGE
from muntin.spark.host.task import Beside

_PASSED = [
    StructField(KIND, StringType()),
    StructField(BLOB, BinaryType()),
    StructField(PROGRESS, StringType()),
]
# Which of a chain of windows rejected a message: 1 for those that were there first.
DEPTH = "stage"
# What pairs of a join that windows rejected have for a side.
_PAIR = "pair"
WINDOW_TIME = "window_time"
# Behind a column that an operator before has with another type.
_RESULT = "_result"


class RowByRow(Protocol):
    """What is made of results before another operator takes them, each row by itself."""

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        """The rows as they are taken.

        Args:
            frame: The results.
            beside: Columns that stay as they are; rows that aren't results have the first of them,
                and are all kept.
        """


class _WithTime:
    """The last moment of each window as a column: its end is the first of the next one."""

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        """See ``RowByRow``."""
        last = f"{columns.WINDOW_END} - INTERVAL '0.000001' SECOND"
        return frame.withColumn(WINDOW_TIME, F.expr(last))


@dataclass(frozen=True)
class Upstream:
    """An operator whose results another one takes.

    Attributes:
        plan: Its plan.
        steps: What is made of its results, one after the other.
        full: Whether only its full firings count; the others are filtered.
    """

    plan: Plan
    steps: tuple[RowByRow, ...] = ()
    full: bool = False

    @property
    def depth(self) -> int:
        """How many windows of the chain its results have been through."""
        return _depth(self.plan) + (0 if self.plan.joins else 1)

    @property
    def revises(self) -> bool:
        """Whether it may emit a window more than once, and all of it counts."""
        spec = self.plan.spec
        if self.full or isinstance(spec, JoinSpec) or not self.plan.streams:
            return False
        return spec.firing.early is not None or spec.firing.grace > 0

    @property
    def keep(self) -> str | None:
        """Which of its results count."""
        return f"{columns.EMISSION} = 'full'" if self.full else None

    def then(self, step: RowByRow) -> Upstream:
        """The same, with more made of its results."""
        return replace(self, steps=(*self.steps, step))

    def with_shards(self, count: int) -> Upstream:
        """The same in so many shards, wherever no number was asked for."""
        return replace(self, plan=self.plan.with_shards(count))

    def rows(self, side: str, rejected: StructType, named: Mapping[str, str]) -> DataFrame:
        """What it emits as rows, and among them rows of ``PASSED`` for all else.

        Args:
            side: Which side of a join it is, if the next operator is one.
            rejected: The columns of rejected messages of both operators.
            named: Columns of its rejected messages that have another name there.
        """
        fields = [StructField(f.name, f.dataType) for f in self.plan.results.fields]
        schema = StructType([*fields, *_PASSED])
        stage = side or ("join" if self.plan.joins else "inner")
        rows = self.plan.emitted.mapInArrow(Unpack(schema, stage, side, rejected, named), schema)
        for step in self.steps:
            rows = step.of_frame(rows, PASSED)
        return rows


def _depth(plan: Plan) -> int:
    """How many windows of the chain the messages of a plan have been through at most."""
    return max((fed.depth for fed in plan.fed), default=0)


def _joins(plan: Plan) -> bool:
    """Whether there is a join in a chain."""
    return plan.joins or any(_joins(fed.plan) for fed in plan.fed)


@dataclass(frozen=True)
class Chained:
    """An operator's inputs, where results of other operators may be among them.

    Attributes:
        sources: The inputs; with results comes all that goes beside them.
        rejected: The columns of rejected messages, of all these operators.
        beside: How the operator's own ones lie among them; ``None`` where there are no others.
    """

    sources: tuple[OperatorInput, ...]
    rejected: StructType
    beside: Beside | None


def chained(sources: tuple[OperatorInput, ...], rejected: StructType) -> Chained:
    """Put an operator behind those whose results are among its inputs.

    Args:
        sources: Its inputs; of a join they are named by their sides.
        rejected: The columns of the messages that it rejects itself.

    Raises:
        OptionError: When a column can't be told from another one.
    """
    fed = {source.name: source.input.fed for source in sources if source.input.fed is not None}
    if not fed:
        return Chained(sources, rejected, None)
    joins = bool(sources[0].name)
    # A pair is of neither side; what windows made of it has none.
    side = None if joins or not fed[""].plan.joins else _PAIR
    depths = {name: up.depth for name, up in fed.items()}
    marks: dict[str, DataType] = {}
    if joins or any(_joins(up.plan) for up in fed.values()):
        marks[SIDE] = StringType()
    if any(depths.values()):
        marks[DEPTH] = IntegerType()
    whole = _Columns({})
    named = {
        name: whole.add(up.plan.rejected, _marks(up.plan), f"_{name}") for name, up in fed.items()
    }
    own = whole.add(rejected, {SIDE} if joins else set(), _RESULT)
    for name in marks:
        if name in whole.kinds:
            raise columns.taken("column", name, "rejected messages")
    head = [StructField(name, kind, name == SIDE and not joins) for name, kind in marks.items()]
    fields = [StructField(name, kind) for name, kind in whole.kinds.items()]
    schema = StructType([*head, *fields, *rejected.fields[-2:]])
    stages = {source.name: depths.get(source.name, 0) + 1 for source in sources}
    beside = Beside(own, {SIDE: side}, {DEPTH: stages})
    return Chained(tuple(_fed(one, schema, named) for one in sources), schema, beside)


def _fed(
    source: OperatorInput, rejected: StructType, named: Mapping[str, Mapping[str, str]]
) -> OperatorInput:
    """An input, with all that goes beside the results that it takes."""
    upstream = source.input.fed
    if upstream is None:
        return source
    rows = upstream.rows(source.name, rejected, named[source.name])
    return replace(source, input=replace(source.input, rows=rows))


def _marks(plan: Plan) -> set[str]:
    """The columns of a plan's rejected messages that say which operator rejected them."""
    return {*([SIDE] if _joins(plan) else []), *([DEPTH] if _depth(plan) else [])}


@dataclass(frozen=True)
class _Columns:
    """The columns of rejected messages of several operators.

    Attributes:
        kinds: Their types, by name.
    """

    kinds: dict[str, DataType]

    def add(self, rejected: StructType, but: Collection[str], suffix: str) -> dict[str, str]:
        """Add an operator's columns; one column serves several where types agree.

        Args:
            rejected: The columns; the last two are the reason and the watermark.
            but: Those of them that aren't the messages' own.
            suffix: What is behind a name that is taken for another type.

        Returns:
            The columns that have another name now.

        Raises:
            OptionError: When that is taken, too.
        """
        named = {}
        for field in rejected.fields[:-2]:
            name = field.name
            if name in but:
                continue
            if self.kinds.get(name, field.dataType) != field.dataType:
                name += suffix
                named[field.name] = name
            if self.kinds.setdefault(name, field.dataType) != field.dataType:
                hint = "rename one of them"
                raise OptionError("column", name, "is a column of two types", hint)
        return named


class Unpack:
    """The function given to ``mapInArrow``: blobs of results become rows, the others stay blobs.

    Args:
        schema: The results' columns, and those of ``PASSED``.
        stage: What the operator is to the one behind it.
        side: Which side of that one it is, if that is a join.
        rejected: The columns of rejected messages of both.
        named: Columns of its rejected messages that have another name there.
    """

    def __init__(
        self,
        schema: StructType,
        stage: str,
        side: str,
        rejected: StructType,
        named: Mapping[str, str],
    ) -> None:
        self.schema = schema
        self.stage = stage
        self.side = side
        self.rejected = rejected
        self.named = dict(named)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack what the shards emitted."""
        target = arrow_schema(self.schema)
        for batch in batches:
            for row in batch.to_pylist():
                if row["kind"] == RESULTS:
                    yield from _fitted(_read(row["blob"]), target, {}).to_batches()
                    continue
                passed = {KIND: row["kind"], BLOB: row["blob"], PROGRESS: row["progress"]}
                if row["kind"] == REJECTED:
                    passed[BLOB] = self._widened(row["blob"])
                else:
                    passed[PROGRESS] = self._staged(row["progress"])
                yield pa.RecordBatch.from_pylist([passed], schema=target)

    def _staged(self, text: str) -> str:
        """Figures with the way to their operator from the one behind this."""
        progress = json.loads(text)
        before = progress.get(STAGE)
        return json.dumps({**progress, STAGE: f"{self.stage}/{before}" if before else self.stage})

    def _widened(self, blob: bytes) -> bytes:
        """Rejected messages with the columns that those of the next operator have."""
        table = _read(blob)
        table = table.rename_columns([self.named.get(name, name) for name in table.column_names])
        if self.side:
            table = self._sided(table)
        # What has no stage yet was rejected by the first operator that it met.
        table = _fitted(table, arrow_schema(self.rejected), {DEPTH: 1})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    def _sided(self, table: pa.Table) -> pa.Table:
        """Rejected messages with the way to their side from the join behind this operator."""
        before = [None] * len(table)
        if SIDE in table.column_names:
            before = table[SIDE].to_pylist()
            table = table.drop_columns([SIDE])
        sides = [f"{self.side}/{one}" if one else self.side for one in before]
        return table.append_column(SIDE, pa.array(sides, pa.string()))


def _read(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def _fitted(table: pa.Table, schema: pa.Schema, values: Mapping[str, Any]) -> pa.Table:
    """Rows with the columns of a schema; where they have none, a value, or null."""
    there, size = set(table.column_names), len(table)
    found = [
        table[f.name].cast(f.type)
        if f.name in there
        else pa.array([values.get(f.name)] * size, f.type)
        for f in schema
    ]
    return pa.table(found, schema=schema)


# The name of a DataFrame, anywhere in a plan, whose rows are revisions of windows.
_REVISIONS = "muntin_revisions"
_FED = "_muntin_fed"


def marked(frame: DataFrame, upstream: Upstream) -> DataFrame:
    """A DataFrame of results that is known again, by itself and in what is made of it."""
    if upstream.revises:
        frame = frame.alias(_REVISIONS)
    remember(frame, _FED, upstream)
    return frame


def fed_by(frame: DataFrame) -> Upstream | None:
    """The operator whose results a DataFrame is, as they came; ``None`` where it is another.

    Raises:
        OptionError: When its rows are several for one window, of which each would count.
    """
    if not isinstance(frame, DataFrame):
        return None
    upstream: Upstream | None = remembered(frame, _FED)
    derived = upstream is None and frame.isStreaming and _REVISIONS in names(frame)
    if derived or (upstream is not None and upstream.revises):
        hint = (
            "give .full in place of .results, which has each window once, or take early() and "
            "late() from the inner windows"
        )
        raise OptionError(
            "frame", "windows", "emit a window again when it changes, and each would count", hint
        )
    return upstream


def with_time(
    frame: DataFrame, upstream: Upstream | None, time: str | None
) -> tuple[DataFrame, Upstream | None]:
    """Results, with the last moment of each window where that is asked for as their time."""
    if upstream is None or time != WINDOW_TIME:
        return frame, upstream
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    timed = isinstance(kinds.get(columns.WINDOW_END), TimestampType | TimestampNTZType)
    if not timed or WINDOW_TIME in kinds:
        return frame, upstream
    return _WithTime().of_frame(frame), upstream.then(_WithTime())


def pairable(frame: DataFrame, upstream: Upstream | None) -> DataFrame:
    """Results as a side of a join, which says itself how a pair came about."""
    return frame if upstream is None else frame.drop(columns.EMISSION, columns.REVISION)


def lag_of(upstream: Upstream) -> int:
    """How far an operator's results may come out of order, microseconds.

    Raises:
        OptionError: When nobody can say.
    """
    spec = upstream.plan.spec
    # Windows come in order of their ends.
    lag = spec.lag if isinstance(spec, JoinSpec) else 0
    if lag is None:
        hint = 'say how late pairs may come: lateness="10 minutes"'
        raise OptionError("lateness", None, "doesn't follow from this join", hint)
    return lag
