"""Tables as Spark reads and writes them, by their connector."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.model.errors import OptionError
from muntin.model.pipeline import Column, DeclaredTable, quoted
from muntin.model.placeholders import filled
from muntin.spark.redaction import hide_secrets
from muntin.spark.sinks.delta import to_delta
from muntin.spark.sinks.duckdb import to_duckdb
from muntin.spark.sinks.iceberg import to_iceberg
from muntin.spark.sinks.kafka import to_kafka
from muntin.spark.sinks.parquet import to_parquet
from muntin.spark.sinks.postgres import to_postgres
from muntin.spark.sinks.sink import Sink
from muntin.spark.sources.decimals import LONG_TEXTS, as_text, from_text, has_decimals
from muntin.spark.sources.kafka import Kafka, kafka

# What brings its own columns.
_FIXED = {"rate", "rate-micro-batch", "kafka", "socket"}
# The brokers' addresses, by the names that others have for them.
_SERVERS = ("bootstrap.servers", "kafka.bootstrap.servers", "properties.bootstrap.servers")
_TOPIC = ("topic", "subscribe")


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
    """Topics out of a table's options; what isn't known here is the connector's own."""
    servers, topic = _taken(table, options, _SERVERS), _taken(table, options, _TOPIC)
    for connectors, ours in (("startingOffsets", "starting"), ("includeHeaders", "headers")):
        if connectors in options:
            options[ours] = options.pop(connectors)
    known = _known(options, "format schema starting reader registry", headers=_truth, per_batch=int)
    return kafka(servers, topic.split(","), columns=table.columns, **known, options=options)


def _known(options: dict[str, str], texts: str, **read: Callable[[str], Any]) -> dict[str, Any]:
    """Options that are a function's own, taken out; what isn't there has the function's default.

    Args:
        options: A table's.
        texts: The names of those that are taken as they are.
        **read: What makes the others out of their text.
    """
    found: dict[str, Callable[[str], Any]] = {**dict.fromkeys(texts.split(), str), **read}
    return {name: make(options.pop(name)) for name, make in found.items() if name in options}


def _truth(text: str) -> bool:
    return text.lower() == "true"


def _taken(table: DeclaredTable, options: dict[str, str], names: tuple[str, ...]) -> str:
    """An option under any of its names, taken out."""
    for name in names:
        if name in options:
            return options.pop(name)
    hint = f"add '{names[0]}' = '...' to the table {table.name}"
    raise OptionError(names[0], None, f"is missing for {table.name}", hint)


def sink(table: DeclaredTable, around: Surroundings) -> Sink:
    """What writes to a table."""
    options = around.options(table)

    def take(name: str) -> str:
        if name not in options:
            hint = f"add {name} = '...' to the table {table.name}"
            raise OptionError(name, None, f"is missing for {table.connector}", hint)
        return options.pop(name)

    made: Sink
    if table.connector == "parquet":
        made = to_parquet(take("path"), **_known(options, "", partition_by=names_of, files=int))
    elif table.connector == "duckdb":
        name = options.pop("table", table.name)
        made = to_duckdb(take("path"), name, **_known(options, "history"))
    elif table.connector == "delta":
        where = options.pop("path", "") or options.pop("table", table.name)
        made = to_delta(where, **_known(options, "history"))
    elif table.connector == "iceberg":
        made = to_iceberg(options.pop("table", table.name), **_known(options, "history"))
    elif table.connector == "postgres":
        name = options.pop("table", table.name)
        known = _known(options, "schema history patience password", create=_truth)
        made = to_postgres(take("dsn"), name, **known)
    elif table.connector == "kafka":
        servers, topic = _taken(table, options, _SERVERS), _taken(table, options, _TOPIC)
        known = _known(options, "format schema registry", key=names_of)
        return to_kafka(servers, topic, **known, options=options)
    else:
        hint = "write to 'parquet', 'duckdb', 'delta', 'iceberg', 'postgres' or 'kafka'"
        raise OptionError("connector", table.connector, "isn't written to", hint)
    if options:
        hint = f"leave it out: {table.connector} as a sink doesn't know it"
        raise OptionError(next(iter(options)), table.name, "isn't an option", hint)
    return made


def names_of(text: str) -> list[str]:
    """Names with commas between them; one with a comma in it stands in double quotes.

    Example:
        >>> names_of('a, "b, c",d')
        ['a', 'b, c', 'd']
    """
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
