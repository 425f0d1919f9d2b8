"""Keeps malformed messages, and what is known of them, while statements select and unite rows.

A source marks the column with the payloads that it couldn't decode. Such a message is NULL in all
other columns, so conditions and joins would lose it, and select lists would lose the mark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from muntin.model.pipeline import Column, quote_name
from muntin.sources.kafka_columns import refuse_malformed
from muntin.sources.source import MALFORMED_COLUMN, MALFORMED_DETAIL_COLUMN

# Metadata of a column that isn't null where the source couldn't parse a message.
MARKS_MALFORMED = "muntin.malformed"
# Spark doesn't say which column is at fault.
UNREADABLE = "not readable by Spark"
_DETAILS = {MALFORMED_COLUMN: "binary", MALFORMED_DETAIL_COLUMN: "string"}
_EXPLODE = re.compile(r"(?is)\s*((?:pos)?explode)\s*\((.*)\)\s*")


def mark_malformed(
    frame: DataFrame,
    corrupt: str,
    detail: SparkColumn | None = None,
    text: SparkColumn | None = None,
) -> DataFrame:
    """Return the rows of Spark's reader of texts, of which those that it couldn't parse are marked.

    Args:
        frame: The rows.
        corrupt: The column that Spark fills with the text of such a row.
        detail: What is wrong with a row that Spark could parse; null of a good one.
        text: Such a row, written as text.
    """
    own = [name for name in frame.columns if name != corrupt]
    refuse_malformed(own)
    # Name all columns: Spark parses those alone that a query needs, and whether a row is malformed
    # mustn't depend on that.
    nulls = ", ".join(f"{quote_name(name)} IS NULL" for name in own)
    is_unreadable = F.expr(f"{corrupt} IS NOT NULL AND size(array({nulls})) > 0")
    payload, details = F.when(is_unreadable, F.col(corrupt)), F.when(is_unreadable, UNREADABLE)
    if detail is not None:
        payload, details = payload.when(detail.isNotNull(), text), details.otherwise(detail)
    return frame.select(
        *(F.col(quote_name(name)) for name in own),
        F.encode(payload, "UTF-8").alias(MALFORMED_COLUMN, metadata={MARKS_MALFORMED: True}),
        details.alias(MALFORMED_DETAIL_COLUMN),
    )


def find_malformed_column(frame: DataFrame) -> str | None:
    """Return the column with the payloads that couldn't be decoded, if the rows have one."""
    return next((f.name for f in frame.schema.fields if MARKS_MALFORMED in f.metadata), None)


def pass_malformed(frame: DataFrame, condition: str) -> str:
    """Return a condition that is true of malformed messages of whose NULLs it says nothing."""
    name = find_malformed_column(frame)
    return condition if name is None else f"coalesce(({condition}), {name} IS NOT NULL)"


def drop_malformed(frame: DataFrame) -> DataFrame:
    """Return the rows of a table that could be decoded, without the columns of the others."""
    name = find_malformed_column(frame)
    return frame if name is None else frame.where(f"{name} IS NULL").drop(name, *_DETAILS)


def keep_malformed(frame: DataFrame, shown: Sequence[Column]) -> list[Column]:
    """Return a select list that keeps malformed messages with their columns."""
    name = find_malformed_column(frame)
    if name is None:
        return [*shown]
    names = {column.name.lower() for column in shown}
    missing = [one for one in _DETAILS if one in frame.columns and not {one, "*"} & names]
    exploded = (_pass_exploded(column, name) for column in shown)
    return [*exploded, *(Column(one, quote_name(one)) for one in missing)]


def _pass_exploded(column: Column, malformed: str) -> Column:
    """Return a selected column; if it explodes lists, a malformed message is one element."""
    match = _EXPLODE.fullmatch(column.text)
    if match is None:
        return column
    function, elements = match.groups()
    one = f"if({malformed} IS NULL, {elements}, coalesce({elements}, array(NULL)))"
    return Column(column.name, f"{function}({one})")


def unite_rows(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames, with columns matched by position and malformed ones marked."""
    if any(map(find_malformed_column, frames)):
        frames = [_lay_out(frame, find_malformed_column(frame) is not None) for frame in frames]
    return reduce(DataFrame.union, frames)


def _lay_out(frame: DataFrame, is_marked: bool) -> DataFrame:
    """Return rows with the columns of malformed messages behind the others."""

    def show(name: str, kind: str) -> SparkColumn:
        has_it = is_marked and name in frame.columns
        value = F.col(name) if has_it else F.lit(None).cast(kind)
        metadata = {MARKS_MALFORMED: True} if name == MALFORMED_COLUMN else {}
        return value.alias(name, metadata=metadata)

    own = [name for name in frame.columns if not (is_marked and name in _DETAILS)]
    return frame.select(
        *(F.col(quote_name(name)) for name in own), *(show(*one) for one in _DETAILS.items())
    )
