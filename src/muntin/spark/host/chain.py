"""What one operator emits that goes on into windows, within one query, and all that goes beside it.

A windowed aggregation over a join, or over other windows, is one streaming query. What the first
operator emits becomes messages; the messages that it rejected and its figures travel with them, as
blobs in columns of their own, through the combining task and the shard, so that the query has them
beside its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructField, StructType

from muntin.engine import columns
from muntin.engine.joins.joiner import SIDE
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.spark.host.internals.plans import names, remember, remembered
from muntin.spark.host.internals.versions import arrow_schema
from muntin.spark.host.messages import BLOB, KIND, PASSED, PROGRESS
from muntin.spark.host.plan import REJECTED, RESULTS, Plan
from muntin.spark.host.progress import STAGE
from muntin.spark.host.task import Beside

if TYPE_CHECKING:
    from muntin.spark.sinks.selected import Shape

_PASSED = [
    StructField(KIND, StringType()),
    StructField(BLOB, BinaryType()),
    StructField(PROGRESS, StringType()),
]
# Which of a chain of windows rejected a message: 1 for those that were there first.
DEPTH = "stage"
# What rejected pairs of a join have for a side.
_PAIR = "pair"
# Behind a column of results that the input of the windows before has with another type.
_RESULT = "_result"


@dataclass(frozen=True)
class Upstream:
    """An operator that windows are fed by.

    Attributes:
        plan: Its plan.
        shape: What is shown of its results; all where there is none.
        full: Whether only its full firings count; the others are filtered.
    """

    plan: Plan
    shape: Shape | None = None
    full: bool = False

    @property
    def depth(self) -> int:
        """How many windows of the chain a message has met when it meets these."""
        if self.plan.joins:
            return 0
        return 1 + (0 if self.plan.upstream is None else self.plan.upstream.depth)

    @property
    def revises(self) -> bool:
        """Whether it may emit a window more than once."""
        spec = self.plan.spec
        if isinstance(spec, JoinSpec) or not self.plan.streams:
            return False
        firing = spec.firing
        return firing.early is not None or firing.grace > 0

    def rows(self) -> DataFrame:
        """What it emits as rows, and among them rows of ``PASSED`` for all else."""
        fields = [StructField(f.name, f.dataType) for f in self.plan.results.fields]
        schema = StructType([*fields, *_PASSED])
        unpack = Unpack(schema, self.rejected, "join" if self.plan.joins else "inner", self.depth)
        rows = self.plan.emitted.mapInArrow(unpack, schema)
        return rows if self.shape is None else self.shape.of_frame(rows, PASSED)

    @property
    def keep(self) -> str | None:
        """Which of the rows count."""
        return f"{columns.EMISSION} = 'full'" if self.full else None

    @property
    def rejected(self) -> StructType:
        """The columns of rejected messages, of those that this was fed and of what it feeds."""
        if self.plan.joins:
            return _rejected_with_pairs(self.plan)
        kinds = self._before
        whole = {**kinds, **self._own(kinds)}
        fields = [StructField(DEPTH, IntegerType(), False)]
        fields += [StructField(name, kind) for name, kind in whole.items()]
        return StructType([*fields, *self.plan.rejected.fields[-2:]])

    def _own(self, kinds: Mapping[str, DataType]) -> dict[str, DataType]:
        """The columns of results among those of rejected messages."""
        own = {self._named(f.name, f.dataType, kinds): f.dataType for f in self._fields}
        for name, kind in own.items():
            if name == DEPTH or kinds.get(name, kind) != kind:
                raise OptionError("column", name, "is a column of two types", "rename one of them")
        return own

    @property
    def _before(self) -> dict[str, DataType]:
        """The columns of rejected messages of the windows before, but for ours."""
        return {f.name: f.dataType for f in self.plan.rejected.fields[:-2] if f.name != DEPTH}

    @property
    def _fields(self) -> list[StructField]:
        if self.shape is None:
            return self.plan.results.fields
        return self.shape.of_frame(self.plan.unpacked(RESULTS)).schema.fields

    @staticmethod
    def _named(name: str, kind: DataType, kinds: Mapping[str, DataType]) -> str:
        return name if kinds.get(name, kind) == kind else name + _RESULT

    def beside(self) -> Beside:
        """What rejected results get beside their own columns."""
        if self.plan.joins:
            return Beside({}, {SIDE: _PAIR})
        kinds, fields = self._before, self._fields
        names = {f.name: self._named(f.name, f.dataType, kinds) for f in fields}
        return Beside({a: b for a, b in names.items() if a != b}, {DEPTH: self.depth + 1})


def _rejected_with_pairs(plan: Plan) -> StructType:
    """The columns of rejected messages of both sides and of rejected pairs.

    Args:
        plan: The join.

    Raises:
        OptionError: When a column would have two types.
    """
    kinds = {f.name: f.dataType for f in plan.results.fields}
    for field in plan.rejected.fields[1:-2]:
        if kinds.setdefault(field.name, field.dataType) != field.dataType:
            hint = "rename one of them"
            raise OptionError("suffix", field.name, "is a column of two types", hint)
    return StructType(
        [
            StructField(SIDE, StringType(), False),
            *(StructField(name, kind) for name, kind in kinds.items() if name != SIDE),
            StructField(columns.REASON, StringType(), False),
            plan.rejected.fields[-1],
        ]
    )


class Unpack:
    """The function given to ``mapInArrow``: blobs of results become rows, the others stay blobs.

    Args:
        schema: The results' columns, and those of ``PASSED``.
        rejected: The columns of rejected messages, also of those behind.
        stage: What the operator is to the one behind it.
        depth: Which of a chain of windows it is; 0 where it isn't windows.
    """

    def __init__(self, schema: StructType, rejected: StructType, stage: str, depth: int) -> None:
        self.schema = schema
        self.rejected = rejected
        self.stage = stage
        self.depth = depth

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Unpack what the shards emitted."""
        target = arrow_schema(self.schema)
        for batch in batches:
            for row in batch.to_pylist():
                if row["kind"] == RESULTS:
                    yield from _fitted(row["blob"], target).to_batches()
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
        """Rejected messages with the columns that rejected results have."""
        table = _fitted(blob, arrow_schema(self.rejected), {DEPTH: self.depth})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()


def _fitted(blob: bytes, schema: pa.Schema, values: Mapping[str, Any] | None = None) -> pa.Table:
    """A blob's rows with the columns of a schema; where it has none, a value, or null."""
    table = pa.ipc.open_stream(blob).read_all()
    there, size = set(table.column_names), len(table)
    found = [
        table[f.name].cast(f.type)
        if f.name in there
        else pa.array([(values or {}).get(f.name)] * size, f.type)
        for f in schema
    ]
    return pa.table(found, schema=schema)


# The name of a DataFrame, anywhere in a plan, whose rows are revisions of windows.
_REVISIONS = "muntin_revisions"
_FED = "_muntin_fed"


def marked(frame: DataFrame, upstream: Upstream) -> DataFrame:
    """A DataFrame of results that is known again, by itself and in what is made of it."""
    if upstream.revises and not upstream.full:
        frame = frame.alias(_REVISIONS)
    remember(frame, _FED, upstream)
    return frame


def fed_by(frame: DataFrame) -> Upstream | None:
    """The windows whose results a DataFrame is, as they came; ``None`` where it is another.

    Raises:
        OptionError: When its rows are several for one window, of which each would count.
    """
    if not isinstance(frame, DataFrame):
        return None
    upstream: Upstream | None = remembered(frame, _FED)
    if (upstream is not None and upstream.revises and not upstream.full) or (
        upstream is None and frame.isStreaming and _REVISIONS in names(frame)
    ):
        hint = (
            "give .full in place of .results, which has each window once, or take early() and "
            "late() from the inner windows"
        )
        raise OptionError(
            "frame", "windows", "emit a window again when it changes, and each would count", hint
        )
    return upstream
