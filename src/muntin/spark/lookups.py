"""Joins messages or the results of windows with static tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muntin.model.errors import OptionError
from muntin.model.pipeline import (
    SIDE_COLUMNS,
    Column,
    Derived,
    Lookup,
    Relation,
    WindowLookup,
    quote_name,
)
from muntin.spark.host.chain import filter_results
from muntin.spark.host.internals.jvm import is_connected
from muntin.spark.sources.malformed import drop_malformed, find_malformed_column

_LEFT, _RIGHT = SIDE_COLUMNS
_MATCHES = "__muntin_matches"


def join_table(lookup: Lookup, left: DataFrame, right: DataFrame) -> DataFrame:
    """Join rows with a table; the result has the columns of both, and shared ones once."""
    _refuse_stream(lookup.name, right)
    right = drop_malformed(right)
    taken = {name.lower() for name in left.columns}
    shared = {name.lower() for name in lookup.shared}
    shows = lookup.how in ("inner", "left")
    twice = [name for name in right.columns if name.lower() in taken - shared]
    if shows and twice:
        raise _twice(lookup.name, "messages", twice)
    joined = _join(lookup, left, right)
    more = [name for name in right.columns if shows and name.lower() not in taken]
    return joined.select(f"{_LEFT}.*", *(F.col(f"{_RIGHT}.{quote_name(name)}") for name in more))


def _join(lookup: Lookup, left: DataFrame, right: DataFrame) -> DataFrame:
    """Return the join of rows with a table, in which malformed messages match nothing, and stay."""
    malformed, how, on = find_malformed_column(left), lookup.how, lookup.on
    if malformed is None:
        return left.alias(_LEFT).join(right.alias(_RIGHT), F.expr(on), how)
    if how == "semi":
        return _join_semi(lookup, left, right, f"{_LEFT}.{malformed} IS NOT NULL")
    if how == "inner":
        right = right.withColumn(_MATCHES, F.lit(True))
    # A condition may be true of NULLs, as NOT IN is.
    on = f"({on}) AND {_LEFT}.{malformed} IS NULL"
    joined = left.alias(_LEFT).join(
        right.alias(_RIGHT), F.expr(on), "left" if how == "inner" else how
    )
    if how != "inner":
        return joined
    return joined.where(f"{_RIGHT}.{_MATCHES} OR {_LEFT}.{malformed} IS NOT NULL")


def _join_semi(lookup: Lookup, left: DataFrame, right: DataFrame, is_malformed: str) -> DataFrame:
    """Return the rows that match, and malformed messages, which match one more row of the table.

    The columns that are equal stay conditions of their own, by which Spark hashes the rows.
    """
    right = right.withColumn(_MATCHES, F.lit(True))
    nulls = (F.lit(None).cast(field.dataType) for field in right.schema.fields)
    right = right.union(right.sparkSession.range(1).select(*nulls))
    equal = (
        f"if({is_malformed}, NULL, {_LEFT}.{quote_name(one)}) <=> {_RIGHT}.{quote_name(other)}"
        for one, other in lookup.equal
    )
    is_of_table = f"{_RIGHT}.{_MATCHES}"
    matches = f"if({is_malformed}, {is_of_table} IS NULL, {is_of_table} AND ({lookup.on}))"
    on = " AND ".join([*equal, matches])
    return left.alias(_LEFT).join(right.alias(_RIGHT), F.expr(on), "semi")


def _refuse_stream(name: str, frame: DataFrame) -> None:
    if frame.isStreaming:
        problem = "is a stream, and the join has no bound in time or rows"
        hint = (
            "compare the times of both as well, as in AND a.ts BETWEEN b.ts - INTERVAL ... AND b.ts"
        )
        raise OptionError("JOIN", name, problem, hint)


def _twice(name: str, whose: str, columns: Sequence[str]) -> OptionError:
    hint = (
        f"give its columns other names: JOIN (SELECT ... AS ... FROM ...) AS {name}; or bound the "
        "times of both"
    )
    problem = f"has columns that the {whose} have as well: {', '.join(columns)}"
    return OptionError("JOIN", name, problem, hint)


@dataclass(frozen=True)
class TableBeside:
    """A table that is looked up for the results of windows."""

    lookup: WindowLookup
    frame: DataFrame

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        """Return windows with the matching row of the table as a struct (``RowByRow``)."""
        row = self.lookup.row
        on = [f"({text}) = {row}.{quote_name(name)}" for text, name in self.lookup.equal]
        on += [f"{name} IS NULL" for name in beside[:1]]
        table = self.frame.select(F.struct("*").alias(row))
        joined = frame.join(table, F.expr(" AND ".join(on)), "left")
        return (
            joined
            if self.lookup.how == "left"
            else filter_results(joined, f"{row} IS NOT NULL", beside)
        )

    def check(self) -> None:
        """Refuse a table with several rows for a window, of which a sink would keep only one.

        Over Spark Connect, batches run in sessions of their own, and tables are refused.
        """
        if is_connected(self.frame.sparkSession):
            hint = "join messages with it, before their windows"
            problem = "is in another session than the batches of Spark Connect"
            raise OptionError("JOIN", self.lookup.name, problem, hint)
        names = [name for _, name in self.lookup.equal]
        without_nulls = self.frame.where(
            " AND ".join(f"{quote_name(name)} IS NOT NULL" for name in names)
        )
        rows = without_nulls.groupBy(*map(quote_name, names)).agg(
            F.count("*").alias("__muntin_rows")
        )
        twice = rows.where("__muntin_rows > 1").head(1)
        if twice:
            values = ", ".join(
                f"{name}={twice[0][position]!r}" for position, name in enumerate(names)
            )
            hint = "keep one row of each, for a window is one row of what the query writes"
            raise OptionError("JOIN", self.lookup.name, f"has several rows of {values}", hint)


def create_lookup(lookup: WindowLookup, frame: DataFrame) -> TableBeside:
    """Return a table that is looked up for the results of windows; a stream is refused."""
    _refuse_stream(lookup.name, frame)
    return TableBeside(lookup, drop_malformed(frame))


def in_full(columns: Sequence[Column], tables: Sequence[TableBeside]) -> Iterator[Column]:
    """Yield the columns of a select list, with ``*`` of a table expanded."""
    whole = {table.lookup.all: table for table in tables}
    taken = {one.name.lower() for one in columns}
    for column in columns:
        table = whole.get(column)
        if table is None:
            yield column
            continue
        shared = {name.lower() for name in table.lookup.shared}
        own = [name for name in table.frame.columns if name.lower() not in shared]
        twice = [name for name in own if name.lower() in taken]
        taken |= {name.lower() for name in own}
        if twice:
            raise _twice(table.lookup.name, "windows", twice)
        yield from (Column(name, f"{table.lookup.row}.{quote_name(name)}") for name in own)


def both(left: Callable[[], DataFrame], right: Callable[[], DataFrame]) -> DataFrame:
    """Return the cross join of both sides, in which a lookup's condition can be resolved."""
    return left().alias(_LEFT).crossJoin(right().alias(_RIGHT))


def refuse_offset(relation: Relation, offset: tuple[str, str]) -> None:
    """Refuse to deduplicate messages by offset where a lookup may have multiplied them."""
    while isinstance(relation, Derived | Lookup):
        if isinstance(relation, Lookup) and relation.how in ("inner", "left"):
            problem = f"is that of each row that a message has met in {relation.name}"
            hint = "leave OFFSET FOR out, or look up with EXISTS"
            raise OptionError("offset", offset, problem, hint)
        relation = relation.source
