"""Tables as Spark reads and writes them, by their connector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.model.errors import OptionError
from muntin.model.pipeline import Column, Table, quoted
from muntin.model.placeholders import filled
from muntin.spark.postgres import PostgresSink, to_postgres
from muntin.spark.sinks import Sink, to_duckdb, to_parquet

# What brings its own columns.
_FIXED = {"rate", "rate-micro-batch", "kafka", "socket"}
# Options of Kafka that others know by other names.
_KAFKA = {
    "topic": "subscribe",
    "bootstrap.servers": "kafka.bootstrap.servers",
    "properties.bootstrap.servers": "kafka.bootstrap.servers",
}
_KAFKA_COLUMNS = ("key", "topic", "partition", "offset", "timestamp")


@dataclass(frozen=True)
class Surroundings:
    """Where placeholders get their values.

    Attributes:
        given: What ``--set`` gave.
        environment: The environment's variables.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def options(self, table: Table) -> dict[str, str]:
        """A table's options with their placeholders replaced.

        Raises:
            OptionError: When one has no value, or a secret isn't one.
        """
        return {
            name: filled(name, value, self.given, self.environment)
            for name, value in table.options.items()
        }


def read(spark: SparkSession, table: Table, around: Surroundings) -> DataFrame:
    """The rows of a table.

    Args:
        spark: The session.
        table: The table.
        around: Where placeholders get their values.

    Raises:
        OptionError: When an option is missing or has no value.
    """
    options = around.options(table)
    reader = spark.readStream if table.stream else spark.read
    if table.connector == "kafka":
        frame = reader.format("kafka").options(**_kafka_options(table, options)).load()
        return computed(_parsed(frame, table, options), table.computed)
    reader = reader.format(table.connector)
    if table.columns is not None and table.connector not in _FIXED:
        reader = reader.schema(table.columns)
    elif table.stream and table.connector not in _FIXED and "path" in options:
        cure = f"write CREATE TABLE {table.name} (name TYPE, ...) WITH (...)"
        raise OptionError("columns", table.name, "are unknown, and a stream needs them", cure)
    return computed(reader.options(**options).load(), table.computed)


def computed(frame: DataFrame, columns: tuple[Column, ...]) -> DataFrame:
    """A frame with computed columns added."""
    if not columns:
        return frame
    return frame.selectExpr("*", *(f"{c.text} AS {quoted(c.name)}" for c in columns))


def _kafka_options(table: Table, options: Mapping[str, str]) -> dict[str, str]:
    renamed = {_KAFKA.get(name, name): value for name, value in options.items()}
    renamed.pop("format", None)
    for needed in ("kafka.bootstrap.servers",):
        if needed not in renamed:
            cure = "add 'bootstrap.servers' = 'host:9092'"
            raise OptionError(needed, None, f"is missing for {table.name}", cure)
    if not {"subscribe", "subscribePattern", "assign"} & renamed.keys():
        cure = "add topic = '...'"
        raise OptionError("topic", None, f"is missing for {table.name}", cure)
    return renamed


def _parsed(frame: DataFrame, table: Table, options: Mapping[str, str]) -> DataFrame:
    """Kafka's values as columns, beside Kafka's own."""
    if table.columns is None:
        return frame
    form = options.get("format", "json")
    if form not in ("json", "csv"):
        raise OptionError("format", form, "isn't read", "give 'json' or 'csv'")
    text = F.col("value").cast("string")
    parse: Callable[..., object] = F.from_json if form == "json" else F.from_csv
    value = frame.withColumn("__muntin_value", parse(text, table.columns))  # type: ignore[arg-type]
    names = value.select("__muntin_value.*").columns
    own = [name for name in _KAFKA_COLUMNS if name not in names]
    return value.select(*own, "__muntin_value.*")


def sink(table: Table, around: Surroundings) -> Sink:
    """What writes to a table.

    Raises:
        OptionError: When nothing writes to its connector, or an option is missing.
    """
    options = around.options(table)

    def take(name: str) -> str:
        if name not in options:
            cure = f"add {name} = '...' to the table {table.name}"
            raise OptionError(name, None, f"is missing for {table.connector}", cure)
        return options.pop(name)

    made: Sink
    if table.connector == "parquet":
        made = to_parquet(take("path"))
    elif table.connector == "duckdb":
        history = options.pop("history", None)
        name = options.pop("table", table.name)
        made = to_duckdb(take("path"), name, history=history)
    elif table.connector == "postgres":
        made = _postgres(take("dsn"), table.name, options)
    else:
        cure = "write to 'parquet', 'duckdb' or 'postgres'"
        raise OptionError("connector", table.connector, "isn't written to", cure)
    if options:
        cure = f"leave it away: {table.connector} as a sink doesn't know it"
        raise OptionError(next(iter(options)), table.name, "isn't an option", cure)
    return made


def _postgres(dsn: str, name: str, options: dict[str, str]) -> PostgresSink:
    """A sink out of a table's options, which are taken out."""
    return to_postgres(
        dsn,
        options.pop("table", name),
        schema=options.pop("schema", None),
        history=options.pop("history", None),
        create=options.pop("create", "true").lower() == "true",
        patience=options.pop("patience", "1 minute"),
        password=options.pop("password", None),
    )
