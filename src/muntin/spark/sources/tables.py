"""Reads declared tables with Spark, by their connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import muntin
from muntin.model.errors import OptionError
from muntin.model.pipeline import Column, DeclaredTable, quote_name
from muntin.model.reader_options import check_reader, translate_options
from muntin.sinks.declared import Surroundings
from muntin.sources.kafka_tables import reading_arguments
from muntin.spark.security_settings import hide_secrets
from muntin.spark.sources.decimals import LONG_TEXTS, as_text, from_text, has_decimals
from muntin.spark.sources.kafka import read_topics

# Connectors with columns of their own.
_FIXED = {"rate", "rate-micro-batch", "kafka", "socket"}


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
    decimals: StructType | None = None
    if table.columns is not None and table.connector not in _FIXED:
        wanted = cast(StructType, StructType.fromDDL(table.columns))
        if has_decimals(wanted) and _in_text(table, options):
            decimals = wanted
        reader = reader.schema(table.columns if decimals is None else as_text(decimals))
    elif table.stream and table.connector not in _FIXED and "path" in options:
        hint = f"write CREATE TABLE {table.name} (name TYPE, ...) WITH (...)"
        raise OptionError("columns", table.name, "are unknown, and a stream needs them", hint)
    frame = reader.options(**options).load()
    if decimals is not None:
        kinds = {field.name: field.dataType for field in decimals.fields}
        frame = frame.select(
            *(
                from_text(F.col(quote_name(name)), kinds[name]).alias(name)
                if name in kinds
                else F.col(quote_name(name))
                for name in frame.columns
            )
        )
    return add_computed(frame, table.computed)


def _in_text(table: DeclaredTable, options: Mapping[str, str]) -> bool:
    """Return whether decimals are read as text first, so that no message takes minutes to parse.

    They aren't if options ask Spark to fail at malformed rows, or set a locale of numbers.
    """
    named = {name.lower(): value.lower() for name, value in options.items()}
    usual = named.get("mode", "permissive") == "permissive" and "locale" not in named
    return table.connector in ("json", "csv") and usual


def add_computed(frame: DataFrame, columns: tuple[Column, ...]) -> DataFrame:
    """Return a frame with computed columns added."""
    if not columns:
        return frame
    return frame.selectExpr("*", *(f"{c.text} AS {quote_name(c.name)}" for c in columns))
