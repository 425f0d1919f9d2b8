"""Tables as Spark reads and writes them, by their connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import muntin
from muntin.model.errors import OptionError
from muntin.model.pipeline import Column, DeclaredTable, quoted
from muntin.model.placeholders import filled
from muntin.sinks.sink import Sink
from muntin.sources.kafka_tables import reading
from muntin.sources.table_options import TableOptions
from muntin.spark.redaction import hide_secrets
from muntin.spark.sources.decimals import LONG_TEXTS, as_text, from_text, has_decimals
from muntin.spark.sources.kafka import Kafka, kafka

# What brings its own columns.
_FIXED = {"rate", "rate-micro-batch", "kafka", "socket"}


@dataclass(frozen=True)
class Surroundings:
    """Where placeholders get their values."""

    given: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def options(self, table: DeclaredTable) -> dict[str, str]:
        """A table's options with their placeholders replaced."""
        return {
            name: filled(name, value, self.given, self.environment)
            for name, value in table.options.items()
        }


def read(spark: SparkSession, table: DeclaredTable, around: Surroundings) -> DataFrame:
    """The rows of a table."""
    options = around.options(table)
    hide_secrets(spark)
    reader = spark.readStream if table.stream else spark.read
    if table.connector == "kafka":
        source = _kafka(table, options)
        frame = source.stream(spark) if table.stream else source.frame(spark)
        return computed(frame, table.computed)
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
                from_text(F.col(quoted(name)), kinds[name]).alias(name)
                if name in kinds
                else F.col(quoted(name))
                for name in frame.columns
            )
        )
    return computed(frame, table.computed)


def _in_text(table: DeclaredTable, options: Mapping[str, str]) -> bool:
    """Whether decimals are read as text first, so that no message takes the parser minutes.

    Not where somebody wants Spark to fail at what it can't parse, or writes numbers otherwise.
    """
    named = {name.lower(): value.lower() for name, value in options.items()}
    usual = named.get("mode", "permissive") == "permissive" and "locale" not in named
    return table.connector in ("json", "csv") and usual


def computed(frame: DataFrame, columns: tuple[Column, ...]) -> DataFrame:
    """A frame with computed columns added."""
    if not columns:
        return frame
    return frame.selectExpr("*", *(f"{c.text} AS {quoted(c.name)}" for c in columns))


def _kafka(table: DeclaredTable, options: dict[str, str]) -> Kafka:
    """The topics that a table's options describe."""
    return kafka(columns=table.columns, **reading(table.name, options))


def sink(table: DeclaredTable, around: Surroundings) -> Sink:
    """What writes to a table: a sink's module says how it is declared."""
    every = [name.removeprefix("to_") for name in dir(muntin) if name.startswith("to_")]
    # Nobody could ask for what is in memory.
    connectors = [name for name in every if name != "memory"]
    if table.connector not in connectors:
        *most, last = map(repr, connectors)
        hint = f"write to {', '.join(most)} or {last}"
        raise OptionError("connector", table.connector, "isn't written to", hint)
    options = TableOptions(table, around.options(table))
    made: Sink = import_module(f"muntin.sinks.{table.connector}").declared(options)
    options.refuse_left()
    return made
