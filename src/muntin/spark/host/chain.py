"""What one operator emits that goes on into another, within one query, and all that goes beside it.

Any operator's results may be an input of any other: windows over a join, a join of windows, windows
over windows, and so on. It is one streaming query. What the first operator emits becomes messages
of the next; the messages that it rejected and its figures travel with them, as blobs in columns of
their own, through the task before the shuffle and the shard, so that the query has them beside its
own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    PAIR,
    WINDOW_TIME,
    change_grace,
    disorder,
    emits_again,
    end_ahead,
    refuse_revisions,
)
from muntin.hosts.progress import INNER
from muntin.model.axis import SECOND
from muntin.model.errors import OptionError
from muntin.spark.host.internals.plans import names, remember, remembered
from muntin.spark.host.messages import BLOB, KIND, PASSED, PROGRESS
from muntin.spark.host.plan import Plan
from muntin.spark.host.task import Beside
from muntin.spark.host.unpack import Unpack
from muntin.spark.sources.inputs import OperatorInput

_PASSED = [
    StructField(KIND, StringType()),
    StructField(BLOB, BinaryType()),
    StructField(PROGRESS, StringType()),
]
# A column, or a moment before it.
_MOMENT = re.compile(r"\(?`?(?P<name>\w+)`?(?: - INTERVAL '(?P<before>[0-9.]+)' SECOND)?\)?")
# Behind a column that an operator before has with another type.
_RESULT = "_result"


class RowByRow(Protocol):
    """What is made of results before another operator takes them, each row by itself."""

    @property
    def by_window(self) -> bool:
        """Whether a window's firing stays one row, known by the window's keys and bounds."""

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        """The rows as they are taken.

        Args:
            frame: The results.
            beside: Columns that stay as they are; rows that aren't results have the first of them,
                and are all kept.
        """

    def bounds(self, known: Mapping[str, int]) -> dict[str, int]:
        """Which of the columns afterwards hold a window's end, or a moment beside it.

        Args:
            known: Which do before, and by how much the least value still to come exceeds the
                watermark, microseconds.
        """


def kept(frame: DataFrame, condition: str, beside: Sequence[str]) -> DataFrame:
    """The rows for which a condition holds, and those that aren't results; see ``RowByRow``."""
    others = f" OR {beside[0]} IS NOT NULL" if beside else ""
    return frame.where(f"({condition}){others}")


class _WithTime:
    """The last moment of each window as a column: its end is the first of the next one."""

    by_window: ClassVar[bool] = True

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        """See ``RowByRow``."""
        last = f"{columns.WINDOW_END} - INTERVAL '0.000001' SECOND"
        return frame.withColumn(WINDOW_TIME, F.expr(last))

    def bounds(self, known: Mapping[str, int]) -> dict[str, int]:
        """See ``RowByRow``."""
        end = known.get(columns.WINDOW_END)
        return dict(known) if end is None else {**known, WINDOW_TIME: end - 1}


def bounds_of(shown: Iterable[tuple[str, str]], known: Mapping[str, int]) -> dict[str, int]:
    """``RowByRow.bounds`` of a select list.

    Args:
        shown: Each column's name and text.
        known: See there.
    """
    found = {}
    for name, text in shown:
        column = _MOMENT.fullmatch(text)
        if column is not None and column["name"] in known:
            found[name] = known[column["name"]] - round(float(column["before"] or 0) * SECOND)
    return found


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
        return emits_again(self.plan.spec, full=self.full, streams=self.plan.streams)

    @property
    def keep(self) -> str | None:
        """Which of its results count."""
        return f"{columns.EMISSION} = 'full'" if self.full else None

    def ahead(self, time: str) -> int | None:
        """By how much the least time still to come exceeds the watermark, microseconds.

        Args:
            time: The column that the next operator takes as the time.

        Returns:
            ``None`` where nobody can say.
        """
        end = end_ahead(self.plan.spec)
        if end is None:
            return None
        known: Mapping[str, int] = {columns.WINDOW_END: end}
        for step in self.steps:
            known = step.bounds(known)
        return known.get(time)

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
        stage = side or ("join" if self.plan.joins else INNER)
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
    side = None if joins or not fed[""].plan.joins else PAIR
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


# The name of a DataFrame, anywhere in a plan, whose rows are revisions of windows.
_REVISIONS = "muntin_revisions"
_FED = "_muntin_fed"


def marked(frame: DataFrame, upstream: Upstream) -> DataFrame:
    """A DataFrame of results that is known again, by itself and in what is made of it."""
    if upstream.revises:
        frame = frame.alias(_REVISIONS)
    remember(frame, _FED, upstream)
    return frame


def fed_by(frame: DataFrame, *, each_change: bool = False) -> Upstream | None:
    """The operator whose results a DataFrame is, as they came; ``None`` where it is another.

    Args:
        frame: The DataFrame.
        each_change: Whether all rows of a window may come, since the newest one counts.

    Raises:
        OptionError: When its rows are several for one window, of which each would count.
    """
    if not isinstance(frame, DataFrame):
        return None
    upstream: Upstream | None = remembered(frame, _FED)
    derived = upstream is None and frame.isStreaming and _REVISIONS in names(frame)
    if derived or (upstream is not None and upstream.revises and not each_change):
        spec = None if upstream is None else upstream.plan.spec
        refuse_revisions(spec, each_change=each_change)
    return upstream


def with_time(
    frame: DataFrame, upstream: Upstream | None, time: object
) -> tuple[DataFrame, Upstream | None]:
    """Results, with the last moment of each window where that is asked for as their time."""
    if upstream is None or not isinstance(time, str) or time != WINDOW_TIME:
        return frame, upstream
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    timed = isinstance(kinds.get(columns.WINDOW_END), TimestampType | TimestampNTZType)
    if not timed or WINDOW_TIME in kinds:
        return frame, upstream
    return _WithTime().of_frame(frame), upstream.then(_WithTime())


def changing(upstream: Upstream, keys: Collection[str]) -> int:
    """How late the windows of a side may change, which a join gives again at each change.

    Args:
        upstream: The windows.
        keys: What the join compares of them.

    Raises:
        OptionError: When a row isn't the whole of a window, known by these columns.
    """
    whole_rows = all(step.by_window for step in upstream.steps)
    return change_grace(upstream.plan.spec, keys, full=upstream.full, whole_rows=whole_rows)


def pairable(frame: DataFrame, upstream: Upstream | None) -> DataFrame:
    """Results as a side of a join, which says itself how a pair came about."""
    return frame if upstream is None else frame.drop(columns.EMISSION, columns.REVISION)


def lag_of(upstream: Upstream) -> int:
    """How far an operator's results may come out of order, microseconds.

    Raises:
        OptionError: When nobody can say.
    """
    return disorder(upstream.plan.spec)
