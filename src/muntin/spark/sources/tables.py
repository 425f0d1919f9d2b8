"""Reads declared tables with Spark, by their connector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

import muntin
from muntin.model.errors import OptionError
from muntin.model.pipeline import Column, DeclaredTable, quote_name
from muntin.model.reader_options import (
    CORRUPT_DEFAULT,
    check_reader,
    keeps_unreadable,
    marks_malformed,
    translate_options,
)
from muntin.sinks.declared import Surroundings
from muntin.sources.kafka_tables import reading_arguments
from muntin.spark.security_settings import hide_secrets
from muntin.spark.sources.decimals import (
    LONG_TEXTS,
    as_text,
    describe_wrong,
    from_text,
    has_decimals,
)
from muntin.spark.sources.kafka import read_topics
from muntin.spark.sources.malformed import mark_malformed

# Connectors with columns of their own.
_FIXED = {"rate", "rate-micro-batch", "kafka", "socket"}
# The column of Spark's readers for the text of a row that they can't parse, and its option.
_CORRUPT, _CORRUPT_OPTION = "__muntin_corrupt", "columnnameofcorruptrecord"
# Options of Spark's readers for how values are spelled.
_FORMATS = {"sep", "delimiter", "quote", "escape", "nullvalue", "dateformat", "timestampformat",
            "timestampntzformat", "timezone"}  # fmt: skip


def read_table(spark: SparkSession, table: DeclaredTable, around: Surroundings) -> DataFrame:
    """Return the rows of a table, whose options are checked."""
    table = replace(table, options=around.options(table))
    check_reader(table)
    connector, options = translate_options(table)
    table = replace(table, connector=connector)
    hide_secrets(spark)
    reader = spark.readStream if table.stream else spark.read
    if table.connector == "kafka":
        topics = muntin.kafka(columns=table.columns, **reading_arguments(table.name, options))
        return add_computed(read_topics(topics, spark, streaming=table.stream), table.computed)
    reader = reader.format(table.connector)
    if table.connector == "json":
        reader = reader.options(**LONG_TEXTS)
    reader = reader.options(**options)
    if table.columns is not None and table.connector not in _FIXED:
        return add_computed(_read_declared(reader, table, options), table.computed)
    if table.stream and table.connector not in _FIXED and "path" in options:
        hint = f"write CREATE TABLE {table.name} (name TYPE, ...) WITH (...)"
        raise OptionError("columns", table.name, "are unknown, and a stream needs them", hint)
    return add_computed(reader.load(), table.computed)


def _read_declared(
    reader: DataFrameReader | DataStreamReader, table: DeclaredTable, options: Mapping[str, str]
) -> DataFrame:
    """Return rows with the declared columns, of which those that Spark can't parse are marked.

    Decimals are read as text first, so that no message takes minutes to parse; not if options set a
    locale of numbers. A user who names a column of unreadable rows, or has Spark leave them out or
    fail at them, gets that.
    """
    named = {name.lower(): value.lower() for name, value in options.items()}
    parses = keeps_unreadable(table.connector, options)
    kinds = cast(StructType, StructType.fromDDL(str(table.columns)))
    if CORRUPT_DEFAULT in kinds.names:
        named.setdefault(_CORRUPT_OPTION, CORRUPT_DEFAULT)
    in_text = parses and has_decimals(kinds) and "locale" not in named
    schema = as_text(kinds) if in_text else kinds
    marks = marks_malformed(table.connector, options, kinds.names)
    if marks:
        reader = reader.option(_CORRUPT_OPTION, _CORRUPT)
        schema = StructType(schema.fields).add(_CORRUPT, "string")
    frame = reader.schema(schema).load()
    if in_text:
        return _convert_decimals(
            frame, kinds, table.connector, options, marks, named.get(_CORRUPT_OPTION)
        )
    return mark_malformed(frame, _CORRUPT) if marks else frame


def _convert_decimals(
    frame: DataFrame,
    kinds: StructType,
    connector: str,
    options: Mapping[str, str],
    marks: bool,
    corrupt: str | None,
) -> DataFrame:
    """Return rows with decimals in place of texts; those with another text are malformed.

    Args:
        frame: The rows.
        kinds: Their columns, with the types of decimals.
        connector: The format that they have been read from.
        options: The options of their reader.
        marks: Whether to mark malformed rows.
        corrupt: The user's column for the text of such rows, in lower case.
    """
    columns = {field.name: F.col(quote_name(field.name)) for field in kinds.fields}
    types = {f.name: f.dataType for f in kinds.fields if has_decimals(f.dataType)}
    detail = F.coalesce(*(describe_wrong(columns[name], name, types[name]) for name in types))
    corrupt = next((name for name in columns if name.lower() == corrupt), None)
    text = _write_text(connector, (columns[name] for name in columns if name != corrupt), options)
    if marks:
        frame = mark_malformed(frame, _CORRUPT, detail, text)
    converted = {name: from_text(columns[name], kind) for name, kind in types.items()}
    if corrupt is not None:
        converted[corrupt] = F.coalesce(columns[corrupt], F.when(detail.isNotNull(), text))
    return frame.withColumns(converted)


def _write_text(
    connector: str, columns: Iterable[SparkColumn], options: Mapping[str, str]
) -> SparkColumn:
    """Return rows as text, since Spark hands over the text of those alone that it can't parse."""
    row = F.struct(*columns)
    formats = {name: one for name, one in options.items() if name.lower() in _FORMATS}
    return F.to_csv(row, formats) if connector == "csv" else F.to_json(row, formats)


def add_computed(frame: DataFrame, columns: tuple[Column, ...]) -> DataFrame:
    """Return a frame with computed columns added."""
    if not columns:
        return frame
    return frame.selectExpr("*", *(f"{c.text} AS {quote_name(c.name)}" for c in columns))
