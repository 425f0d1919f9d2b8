"""muntin: windows for streams, on Spark, from Python.

A DataFrame goes in, windows come out: early, full and late, on panes that are shared by all
windows, in state that a query can be restarted from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.model.aggregates import *  # noqa: F403
from muntin.model.aggregates import __all__ as _AGGREGATES
from muntin.model.aggregates import called_here as _called_here
from muntin.model.axis import rows
from muntin.model.errors import (
    BatchError,
    MissingExtraError,
    MuntinError,
    OptionError,
    OutsideStreamError,
    PartitionError,
    RefusedError,
    SelectorDisabledError,
    SettingError,
    SinkError,
    SourceError,
    SpecChangedError,
    SqlError,
    StateCorruptedError,
)

if TYPE_CHECKING:
    from muntin import standalone, stores
    from muntin.spark.agents.app import on_spark
    from muntin.spark.inspect.metrics import Metrics, metrics
    from muntin.spark.inspect.tables import open_table
    from muntin.spark.inspect.windows import open_state
    from muntin.spark.join import join
    from muntin.spark.query import WindowedQuery
    from muntin.spark.session import configure, session, settings
    from muntin.spark.sinks.delta import to_delta
    from muntin.spark.sinks.duckdb import to_duckdb
    from muntin.spark.sinks.iceberg import to_iceberg
    from muntin.spark.sinks.kafka import to_kafka
    from muntin.spark.sinks.parquet import to_parquet
    from muntin.spark.sinks.postgres import to_postgres
    from muntin.spark.sources.kafka import kafka
    from muntin.spark.statements import sql
    from muntin.spark.windowed import windowed
    from muntin.tables import App, Record, memory, source

__all__ = [
    *_AGGREGATES,
    "App",
    "Metrics",
    "BatchError",
    "MissingExtraError",
    "MuntinError",
    "OptionError",
    "OutsideStreamError",
    "PartitionError",
    "Record",
    "RefusedError",
    "SelectorDisabledError",
    "SettingError",
    "SinkError",
    "SourceError",
    "SpecChangedError",
    "SqlError",
    "StateCorruptedError",
    "WindowedQuery",
    "configure",
    "join",
    "kafka",
    "memory",
    "metrics",
    "on_spark",
    "open_state",
    "open_table",
    "rows",
    "session",
    "settings",
    "source",
    "sql",
    "standalone",
    "stores",
    "to_delta",
    "to_duckdb",
    "to_iceberg",
    "to_kafka",
    "to_parquet",
    "to_postgres",
    "windowed",
]

# A door is opened at the first use, so that each can be used where the others' libraries aren't:
# the model, the tables and the standalone operators need no pyspark.
_DOORS = ("sql", "standalone", "stores")
_NAMES = {
    "App": "muntin.tables",
    "Record": "muntin.tables",
    "memory": "muntin.tables",
    "source": "muntin.tables",
    "WindowedQuery": "muntin.spark.query",
    "configure": "muntin.spark.session",
    "join": "muntin.spark.join",
    "Metrics": "muntin.spark.inspect.metrics",
    "kafka": "muntin.spark.sources.kafka",
    "metrics": "muntin.spark.inspect.metrics",
    "on_spark": "muntin.spark.agents.app",
    "open_state": "muntin.spark.inspect.windows",
    "open_table": "muntin.spark.inspect.tables",
    "session": "muntin.spark.session",
    "settings": "muntin.spark.session",
    "to_delta": "muntin.spark.sinks.delta",
    "to_duckdb": "muntin.spark.sinks.duckdb",
    "to_iceberg": "muntin.spark.sinks.iceberg",
    "to_kafka": "muntin.spark.sinks.kafka",
    "to_parquet": "muntin.spark.sinks.parquet",
    "to_postgres": "muntin.spark.sinks.postgres",
    "windowed": "muntin.spark.windowed",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _DOORS:
        return import_module(f"muntin.{name}")
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    here = _called_here(name)
    hint = f"; it is muntin.{here} here" if here else ""
    raise AttributeError(f"module 'muntin' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
