"""Inputs of operators on Spark: checks them, flags messages and picks the cheapest way to read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from muntin.engine import columns
from muntin.engine.admission import NOW, Flags
from muntin.hosts.inspect.opening import read_spec
from muntin.model.axis import SECOND
from muntin.model.errors import MuntinError, OptionError, SpecChangedError
from muntin.model.facts import QuerySpec, compare_facts
from muntin.model.inputs import (
    BY_GREATEST,
    BY_SOURCE,
    InputSpec,
    Limits,
    check_clocks,
)
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.heartbeat import ENDS_RUN, TICK_SOURCE, Heartbeat, parse_tick
from muntin.spark.host.internals.checkpoints import read_newest_offsets
from muntin.spark.host.internals.data_sources import register
from muntin.spark.host.internals.plans import reads
from muntin.spark.host.messages import PASSED, BatchReader, read_frames
from muntin.spark.host.schema import moment_type, polars_schema
from muntin.spark.sources.kafka_rows import KafkaRows, topics_of
from muntin.spark.sources.kafka_task import RangeReader
from muntin.spark.sources.malformed import find_malformed_column
from muntin.spark.sources.parquet import ParquetReader, list_file_parts

if TYPE_CHECKING:
    from muntin.spark.host.chain import SparkUpstream

PARSED = "__muntin_parsed"
# Column of the wall clock that a tick carries, microseconds; below zero where the run ends with it.
WALL = "wall"
# Whether plans are built only to end a run, by `ending_run`.
_ENDING = ContextVar("muntin_ending", default=False)
_MOST_DAYS = 106_000_000
_TIMES = (T.TimestampType, T.TimestampNTZType, T.StringType)
_POLICIES = {f"{side}{name}" for side in ("", "left ", "right ") for name in ("early", "late")}
# The columns sent of a message, by name: an expression, or ``None`` for the unchanged column.
Sent = dict[str, Column | None]
INPUT_COLUMNS = {
    columns.KEEP,
    *columns.TIME_FLAGS,
    columns.CLOCK,
    PARSED,
    NOW,
    *PASSED,
}


@dataclass(frozen=True)
class Input:
    """A DataFrame and the options by which its messages are read.

    Attributes:
        clock: The column of a message's arrival time, in place of the machine's clock.
        limits: How far from the clock a time may be.
        offset: The columns of a message's partition and of its offset in it.
        upstream: The upstream operator whose results the frame has, if there is one.
        rows: The frame's rows, with rows among them that only pass through; ``None`` is the frame.
        stamped: Whether messages carry the batch's wall clock, as ``NOW``.
        computed_time: The expression of an event time that isn't a column of the frame.
        arrival_expression: The expression of an arrival time that isn't a column of the frame.
    """

    frame: DataFrame
    time: str | None
    where: Column | str | None = None
    clock: str | None = None
    limits: Limits = ()
    offset: tuple[str, str] | None = None
    upstream: SparkUpstream | None = None
    rows: DataFrame | None = None
    stamped: bool = False
    computed_time: Column | None = None
    arrival_expression: Column | None = None

    @cached_property
    def time_type(self) -> T.DataType | None:
        """The type of the event time in the frame."""
        if self.computed_time is not None:
            return self.frame.select(self.computed_time).schema[0].dataType
        return None if self.time is None else self.frame.schema[self.time].dataType

    @property
    def moments(self) -> T.DataType:
        """The type of moments that muntin computes, which follows the event time's."""
        return moment_type(self.time_type)

    def with_time_type(self, name: str) -> T.StructType:
        """Return a schema with the event time's type as a column of a name."""
        return T.StructType([T.StructField(name, self.time_type or T.TimestampType())])

    @property
    def ahead(self) -> int | None:
        """The distance from the upstream watermark to the least time to come, microseconds."""
        if self.upstream is None or self.time is None or self.computed_time is not None:
            return None
        return self.upstream.find_time_ahead(self.time)

    def with_shards(self, count: int) -> Input:
        """Return the input with a shard count for upstream operators that didn't ask for one."""
        return (
            self
            if self.upstream is None
            else replace(self, upstream=self.upstream.with_shards(count))
        )

    def select(self, sent: Sent) -> DataFrame:
        """Return the rows, with the columns that are sent."""
        rows = self.frame if self.rows is None else self.rows
        if self.rows is None and self.upstream is not None and columns.EMISSION not in rows.columns:
            # The schema is needed before the upstream rows exist, which bring the emission along.
            rows = rows.withColumn(columns.EMISSION, F.lit("full"))
        passed = [] if self.rows is None else PASSED
        # An expression costs Python a millisecond, and frames have thousands of columns.
        asked = (f"`{n}`" if c is None else c.alias(n) for n, c in sent.items())
        return rows.select(*asked, *passed)

    def columns(self) -> Sent:
        """Return the frame's columns by name, once the options have been checked against them."""
        _check_names(self.frame)
        if self.time is not None:
            if self.computed_time is None:
                _check_column(self.frame, "time", self.time)
            _check_time("time", self.time, self.time_type, T.DateType)
        if self.clock is not None:
            if self.arrival_expression is None:
                _check_column(self.frame, "clock", self.clock)
            kind = self.frame.select(self._arrival).schema[0].dataType
            _check_time("clock", self.clock, kind)
        _check_offset(self.frame, self.offset)
        return dict.fromkeys(self.frame.columns)

    def flag(self, sent: Sent) -> str | None:
        """Add the flags that Spark computes for each message, and return its time's column."""
        time = self.time
        asked = [self.where, None if self.upstream is None else self.upstream.result_filter]
        conditions = [
            F.expr(one) if isinstance(one, str) else one for one in asked if one is not None
        ]
        if conditions:
            sent[columns.KEEP] = reduce(Column.__and__, conditions)
        if self.clock is not None:
            sent[columns.CLOCK] = self._arrival
        if self.stamped:
            sent[NOW] = _batch_clock(zoneless=False)
        unparsed = find_malformed_column(self.frame)
        if unparsed is not None:
            sent[columns.MALFORMED] = _column(unparsed).isNotNull()
        if time is None:
            return None
        event_time = _column(time) if self.computed_time is None else self.computed_time
        only = None if self.upstream is None else self.upstream.result_filter
        if only is not None:
            # An early result carries the end of its window, which the watermark hasn't reached.
            event_time = F.when(F.expr(only), event_time)
        moment = _parse_time(event_time, self.time_type)
        if moment is not event_time:
            wrong = event_time.isNotNull() & moment.isNull()
            unread = sent.get(columns.MALFORMED)
            sent[columns.MALFORMED] = wrong if unread is None else unread | wrong
        as_it_is = moment is event_time and self.computed_time is None and only is None
        if not as_it_is:
            sent[PARSED] = moment
        wall = F.localtimestamp() if self.local else F.current_timestamp()
        if self.clock is not None:
            wall = self._arrival
        for limit in self.limits:
            # Without an arrival time, no limit excludes a message.
            excluded = limit.excludes(moment, wall, _to_interval)
            sent[columns.LIMIT_FLAGS[limit.reason]] = F.coalesce(excluded, F.lit(False))
        return time if as_it_is else PARSED

    @property
    def _arrival(self) -> Column:
        """The arrival time that a message carries."""
        assert self.clock is not None
        return _column(self.clock) if self.arrival_expression is None else self.arrival_expression

    @property
    def local(self) -> bool:
        """True if times have no zone."""
        return isinstance(self.moments, T.TimestampNTZType)


@dataclass(frozen=True)
class OperatorInput:
    """An input of an operator, with the columns that Spark sends to the workers.

    Attributes:
        sent: The columns sent of each message, by name.
        used: The columns that the operator computes with: a message is malformed where the text in
            one of them isn't UTF-8.
        name: The input's name: the side of a join or the topic; else the empty text.
        ordered: Whether the order of arrival counts.
        follows: Whether its event time advances with the watermark of the upstream operator, where
            its time column allows that; not where an idle input advances by the clock.
        partitions: Whether each partition of its topics has a clock, where workers read them.
    """

    input: Input
    sent: Sent
    time: str | None = None
    used: frozenset[str] = frozenset()
    name: str = ""
    ordered: bool = False
    follows: bool = False
    partitions: bool = False

    @classmethod
    def of(cls, input_: Input, sent: Sent, name: str = "") -> OperatorInput:
        """Return an input that sends some columns, and the flags that Spark computes."""
        time = input_.flag(sent)
        return cls(input_, sent, time, name=name)

    def without(self, names: Collection[str]) -> OperatorInput:
        """Return the input without some of the columns that are sent."""
        # DataFrame.drop ignores case: it would drop a key that differs only by capitals, too.
        sent = {name: column for name, column in self.sent.items() if name not in names}
        return replace(self, sent=sent)

    def with_clocks(self, spec: InputSpec) -> OperatorInput:
        """Return the input with a clock for each partition, unless the query sets other clocks."""
        check_clocks(spec, self.input.frame.columns, results=self.input.upstream is not None)
        one_clock = spec.time is None or bool(spec.clocks) or spec.watermark == BY_GREATEST
        clocked = replace(self, partitions=not one_clock)
        if spec.watermark == BY_SOURCE and not isinstance(clocked.read[1], KafkaRows):
            problem = "needs a topic that mt.kafka reads in columns, as it is"
            hint = "let key and time be names of columns, without where=, or leave it out"
            raise OptionError("watermark", BY_SOURCE, problem, hint)
        return clocked

    @cached_property
    def messages(self) -> DataFrame:
        """The messages as Spark sends them."""
        return self.input.select(self.sent)

    @cached_property
    def schema(self) -> dict[str, pl.DataType]:
        """Polars types of the columns that reach Python, without muntin's own."""
        types = polars_schema(self.messages.schema)
        return {name: dtype for name, dtype in types.items() if name not in INPUT_COLUMNS}

    @cached_property
    def read(self) -> tuple[BatchReader, DataFrame | KafkaRows]:
        """The reader of the workers, and what Spark sends to it: rows, files or offset ranges."""
        input_, frame, local = self.input, self.input.frame, self.input.local
        names = [name for name in frame.columns if name in self.schema]
        flagged = columns.LIMIT_FLAGS.values()
        derived = set(self.messages.columns) - {*names, columns.CLOCK, *flagged, NOW}
        # Spark writes a timestamp into the code that it generates, so it would compile that code
        # anew in every batch: ask for the clock only where something needs it.
        needs_clock = input_.stamped or (bool(input_.limits) and input_.clock is None)
        now = _batch_clock(zoneless=local) if needs_clock else F.lit(0).cast("long")
        wanted = {name: self.schema[name] for name in names}
        flags = Flags(self.time, input_.clock, input_.limits, input_.stamped)
        # Offset ranges carry one clock, which is never the local one. Parts of a file would lose
        # the order of arrival.
        as_rows = self.ordered or input_.arrival_expression is not None
        topics = None if as_rows or (local and needs_clock) else topics_of(frame)
        if topics is not None and derived <= {columns.MALFORMED} and self.time == input_.time:
            rows, reader = topics
            reader = replace(
                reader,
                wanted=wanted,
                flags=flags,
                has_partition_names=self.partitions,
                malformed_flag=columns.MALFORMED if derived else None,
            )
            return RangeReader(reader), rows
        # Files carry one clock, too, and the clock that messages are stamped with is never local.
        as_rows = as_rows or bool(derived) or (local and input_.stamped)
        files_and_root = None if as_rows else list_file_parts(frame, now)
        if files_and_root is None:
            return read_frames, self.messages
        files_frame, root = files_and_root
        return ParquetReader(wanted, root, flags), files_frame

    @property
    def columnar(self) -> bool:
        """True if the workers read the input's files or topics themselves."""
        return self.read[0] is not read_frames


def _column(name: str) -> Column:
    return F.col(f"`{name}`")


def _parse_time(time: Column, kind: T.DataType | None) -> Column:
    """Return an event time as a moment: texts are parsed, a day is its midnight without a zone."""
    if isinstance(kind, T.StringType):
        return F.try_to_timestamp(time)
    if isinstance(kind, T.DateType):
        days = F.unix_date(time)
        # Spark fails the query at days beyond these.
        return F.when(days.between(-_MOST_DAYS, _MOST_DAYS), time.cast("timestamp_ntz"))
    return time


def _to_interval(length: int) -> Column:
    return F.expr(f"make_dt_interval(0, 0, 0, {length / SECOND:.6f})")


def _batch_clock(*, zoneless: bool) -> Column:
    """Return the batch's wall clock in microseconds; a repeated batch has the same one."""
    now = F.current_timestamp()
    return F.unix_micros(F.from_utc_timestamp(now, F.current_timezone()) if zoneless else now)


def _check_names(frame: DataFrame) -> None:
    cased = str(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    seen: set[str] = set()
    for name in frame.columns:
        folded = name if cased else name.lower()
        hint = "rename the columns: frame.toDF(names)"
        if not name or "`" in name:
            raise OptionError("column", name, "can't be the name of a column", hint)
        if folded in seen:
            raise OptionError("column", name, "is the name of two columns", hint)
        seen.add(folded)


def _check_offset(frame: DataFrame, offset: tuple[str, str] | None) -> None:
    whole = ("tinyint", "smallint", "int", "bigint")
    for column, kinds in zip(offset or (), ((*whole, "string"), whole), strict=False):
        if column not in frame.columns:
            hint = f"give two of {', '.join(frame.columns)}"
            raise OptionError("offset", column, "isn't a column", hint)
        kind = frame.schema[column].dataType.simpleString()
        if kind not in kinds:
            hint = f"cast it to one of {', '.join(kinds)}"
            raise OptionError("offset", column, f"has type {kind}", hint)


def _check_column(frame: DataFrame, option: str, name: str) -> None:
    if name not in frame.columns:
        hint = f"give one of {', '.join(frame.columns)}"
        if not name.isidentifier():
            first = "" if option == "time" else "select it under a name first: "
            hint += f", or an expression: {first}F.expr({name!r})"
        raise OptionError(option, name, "isn't a column", hint)


def _check_time(option: str, time: str, kind: T.DataType | None, *more: type[T.DataType]) -> None:
    if kind is not None and not isinstance(kind, (*_TIMES, *more)):
        hint = "cast it first, for example with timestamp_seconds(), timestamp_millis() or cast()"
        raise OptionError(option, time, f"has type {kind.simpleString()}, not timestamp", hint)


@contextmanager
def ending_run() -> Iterator[None]:
    """Have plans built in the context emit in their first batch what waits for the clock."""
    before = _ENDING.set(True)
    try:
        yield
    finally:
        _ENDING.reset(before)


def make_ticks(spark: SparkSession, slots: Sequence[int], period: int) -> DataFrame:
    """Return the stream of ticks: in each period one row for each slot, with ``WALL``."""
    register(spark, Heartbeat)
    options = {"period": str(period), ENDS_RUN: str(_ENDING.get()).lower()}
    beats = spark.readStream.format(TICK_SOURCE).options(**options).load()
    every = F.array(*(F.lit(slot) for slot in slots))
    return beats.select(F.explode(every).alias("slot"), F.col("tick").alias(WALL))


def check_ticks(emitted: DataFrame, checkpoint: str, specs: Sequence[QuerySpec] = ()) -> None:
    """Refuse a checkpoint that has ticks where the query has none, or the other way round.

    Ticks are a source of their own, and Spark resumes from a checkpoint only with the same number
    of sources. Its own error wouldn't name the option that changed.
    """
    had_ticks = _has_stored_ticks(emitted, checkpoint)
    if had_ticks is None or had_ticks == (has_ticks := reads(emitted, TICK_SOURCE)):
        return
    lines: list[str] = []
    for number, spec in enumerate(specs):
        with suppress(MuntinError):  # there may be no state yet, or state that isn't of windows
            opened = Checkpoint(emitted.sparkSession, checkpoint, operator=number)
            then, now = read_spec(opened).facts(), spec.facts()
            changes = compare_facts(then, now, {*then, *now} - (_POLICIES & {*then} & {*now}))
            lines += [f"{line}, of {spec.title}" if number else line for line in changes]
    words = ("doesn't use the machine's clock", "uses the machine's clock")
    changes_text = f" ({'; '.join(lines)})" if lines else ""
    raise SpecChangedError(
        f"the checkpoint was written by a query that {words[had_ticks]}, and this one "
        f"{words[has_ticks]}{changes_text}, which Spark can't resume from. Use the policies "
        "(every=…), idle=, clock= or relative_to_now() of the checkpoint's query, or start with "
        "a new checkpoint folder"
    )


def _has_stored_ticks(emitted: DataFrame, checkpoint: str) -> bool | None:
    """Return whether a checkpoint's sources include ticks; ``None`` where it has no offsets yet."""
    lines = read_newest_offsets(emitted.sparkSession, checkpoint)
    return None if lines is None else any(parse_tick(line) is not None for line in lines[2:])
