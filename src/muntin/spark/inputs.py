"""What a query reads: an input checked, flagged and handed to the workers in the cheapest way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, TimestampNTZType, TimestampType

from muntin.engine import columns
from muntin.model.axis import SECOND
from muntin.model.errors import OptionError
from muntin.model.policies import Every, Policy
from muntin.spark.combiner import PASSED, Reader, as_sent
from muntin.spark.heartbeat import NAME, Heartbeat
from muntin.spark.parquet import ParquetReader, files

PARSED = "__muntin_parsed"
# The metadata of a column that isn't null where a message couldn't be parsed by its source.
MARKS_MALFORMED = "muntin.malformed"
# The wall clock that a tick carries, microseconds.
WALL = "wall"
OWN = {columns.KEEP, columns.MALFORMED, columns.FUTURE, columns.CLOCK, PARSED, *PASSED}


@dataclass(frozen=True)
class Input:
    """A DataFrame and how its messages are to be taken.

    Attributes:
        frame: The input.
        time: The event-time column's name, if there is one.
        where: Which messages to take at all.
        clock: The column that says when a message arrived, in place of the machine's clock.
        max_ahead: How far ahead of the clock a message may be, microseconds; ``None`` is any.
        offset: The columns of a message's partition and of its offset in it.
        rows: The frame's rows, with others among them that only pass through; the frame itself
            where there are none.
    """

    frame: DataFrame
    time: str | None
    where: Column | str | None = None
    clock: str | None = None
    max_ahead: int | None = None
    offset: tuple[str, str] | None = None
    rows: DataFrame | None = None

    def select(self, sent: dict[str, Column]) -> DataFrame:
        """The rows, with what is sent of each."""
        rows = self.frame if self.rows is None else self.rows
        passed = [] if self.rows is None else [F.col(name) for name in PASSED]
        return rows.select(*(column.alias(name) for name, column in sent.items()), *passed)

    def columns(self) -> dict[str, Column]:
        """The frame's columns, by name.

        Raises:
            OptionError: When the time, the clock or the offset isn't a column of a fitting type.
        """
        if self.time is not None:
            _check_time(self.frame, "time", self.time)
        if self.clock is not None:
            _check_time(self.frame, "clock", self.clock)
        _check_offset(self.frame, self.offset)
        return {name: F.col(f"`{name}`") for name in self.frame.columns}

    def flag(self, sent: dict[str, Column]) -> str | None:
        """Add what Spark decides about each message; returns the column that holds its time."""
        time = self.time
        if self.where is not None:
            where = self.where
            sent[columns.KEEP] = F.expr(where) if isinstance(where, str) else where
        if self.clock is not None:
            sent[columns.CLOCK] = sent[self.clock]
        unparsed = [f.name for f in self.frame.schema.fields if MARKS_MALFORMED in f.metadata]
        for name in unparsed:
            sent[columns.MALFORMED] = sent[name].isNotNull()
        if time is None:
            return None
        holder, kind = time, self.frame.schema[time].dataType
        moment = sent[time]
        if isinstance(kind, StringType):
            holder = PARSED
            moment = F.try_to_timestamp(sent[time])
            sent[PARSED] = moment
            wrong = sent[time].isNotNull() & moment.isNull()
            sent[columns.MALFORMED] = sent.get(columns.MALFORMED, F.lit(False)) | wrong
        wall = F.localtimestamp() if isinstance(kind, TimestampNTZType) else F.current_timestamp()
        if self.clock is not None:
            wall = sent[self.clock]
        if self.max_ahead is not None:
            ahead = F.expr(f"make_dt_interval(0, 0, 0, {self.max_ahead / SECOND:.6f})")
            # A message without an arrival time isn't thereby from the future.
            sent[columns.FUTURE] = F.coalesce(moment > wall + ahead, F.lit(False))
        return holder

    def read(
        self,
        messages: DataFrame,
        schema: dict[str, pl.DataType],
        holder: str | None,
        ordered: bool = False,
    ) -> tuple[Reader, DataFrame]:
        """How messages reach the workers: as rows, or as the files that hold them.

        Args:
            messages: The frame with all that is sent.
            schema: Polars types of the columns that reach Python.
            holder: The column that holds the event time.
            ordered: Whether the order of arrival counts, which parts of a file would mix up.
        """
        names = self.frame.columns
        derived = set(messages.columns) - {*names, columns.CLOCK, columns.FUTURE}
        time = self.time
        zoneless = time and isinstance(self.frame.schema[time].dataType, TimestampNTZType)
        # Spark writes a moment into the code that it generates, and then compiles that in every
        # batch.
        asked = self.max_ahead is not None and self.clock is None
        now = _batch_clock(bool(zoneless)) if asked else F.lit(0).cast("long")
        found = None if derived or ordered else files(self.frame, now)
        if found is None:
            return as_sent, messages
        listed, root = found
        read = {name: schema[name] for name in names}
        return ParquetReader(read, root, holder, self.clock, self.max_ahead), listed


def _batch_clock(zoneless: bool) -> Column:
    """The batch's wall clock in microseconds; the same when the batch is repeated.

    Args:
        zoneless: Whether local time is meant, as ``timestamp_ntz`` has it.
    """
    now = F.current_timestamp()
    return F.unix_micros(F.from_utc_timestamp(now, F.current_timezone()) if zoneless else now)


def _check_offset(frame: DataFrame, offset: tuple[str, str] | None) -> None:
    whole = ("tinyint", "smallint", "int", "bigint")
    for column, kinds in zip(offset or (), ((*whole, "string"), whole), strict=False):
        if column not in frame.columns:
            cure = f"give two of {', '.join(frame.columns)}"
            raise OptionError("offset", column, "isn't a column", cure)
        kind = frame.schema[column].dataType.simpleString()
        if kind not in kinds:
            cure = f"cast it to one of {', '.join(kinds)}"
            raise OptionError("offset", column, f"has type {kind}", cure)


def _check_time(frame: DataFrame, option: str, time: str) -> None:
    if time not in frame.columns:
        cure = f"give one of {', '.join(frame.columns)}"
        raise OptionError(option, time, "isn't a column", cure)
    kind = frame.schema[time].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType | StringType):
        cure = "cast it first, for example with timestamp_seconds(), timestamp_millis() or cast()"
        raise OptionError(option, time, f"has type {kind.simpleString()}, not timestamp", cure)


def period_of(policies: Sequence[Policy | None]) -> int:
    """How often a tick is needed: the shortest period of a policy, at most a second apart."""
    return min([SECOND, *(p.period for p in policies if isinstance(p, Every))])


def ticks(spark: SparkSession, slots: Sequence[int], period: int) -> DataFrame:
    """A row a slot and period, with ``WALL``."""
    spark.dataSource.register(Heartbeat)
    beats = spark.readStream.format(NAME).option("period", str(period)).load()
    every = F.array(*(F.lit(slot) for slot in slots))
    wall = (F.col("tick") * period).alias(WALL)
    return beats.select(F.explode(every).alias("slot"), wall)
