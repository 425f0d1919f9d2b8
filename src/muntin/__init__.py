"""muntin: windows for streams, on Spark, from Python.

A DataFrame goes in, windows come out: early, full and late, on panes that are shared by all
windows, in state that a query can be restarted from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muntin.model.aggregates import (
    aggregate,
    apply,
    approx_distinct,
    arg_max,
    arg_min,
    bool_and,
    bool_or,
    collect_list,
    count,
    count_if,
    distinct,
    exact_quantile,
    first,
    last,
    max,
    mean,
    median,
    min,
    quantile,
    stddev,
    sum,
    top_k,
    variance,
)
from muntin.model.axis import rows
from muntin.model.errors import (
    MissingExtraError,
    MuntinError,
    OptionError,
    OutsideStreamError,
    PartitionError,
    SettingError,
    SpecChangedError,
    StateCorruptedError,
)

if TYPE_CHECKING:
    from muntin.spark.agents import on_spark
    from muntin.spark.join import join
    from muntin.spark.query import WindowedQuery
    from muntin.spark.session import session
    from muntin.spark.sinks import to_duckdb, to_parquet
    from muntin.spark.windowed import windowed
    from muntin.tables import App, Record, memory, source

__all__ = [
    "App",
    "MissingExtraError",
    "MuntinError",
    "OptionError",
    "OutsideStreamError",
    "PartitionError",
    "Record",
    "SettingError",
    "SpecChangedError",
    "StateCorruptedError",
    "WindowedQuery",
    "aggregate",
    "apply",
    "approx_distinct",
    "arg_max",
    "arg_min",
    "bool_and",
    "bool_or",
    "collect_list",
    "count",
    "count_if",
    "distinct",
    "exact_quantile",
    "first",
    "join",
    "last",
    "max",
    "mean",
    "median",
    "memory",
    "min",
    "on_spark",
    "quantile",
    "rows",
    "session",
    "source",
    "stddev",
    "sum",
    "to_duckdb",
    "to_parquet",
    "top_k",
    "variance",
    "windowed",
]

# Doors are opened at their first use, so that the model and the engine can be used where pyspark
# isn't.
_DOORS = {
    "App": "muntin.tables",
    "Record": "muntin.tables",
    "memory": "muntin.tables",
    "source": "muntin.tables",
    "WindowedQuery": "muntin.spark.query",
    "join": "muntin.spark.join",
    "on_spark": "muntin.spark.agents",
    "session": "muntin.spark.session",
    "to_duckdb": "muntin.spark.sinks",
    "to_parquet": "muntin.spark.sinks",
    "windowed": "muntin.spark.windowed",
}


def __getattr__(name: str) -> Any:
    if name not in _DOORS:
        raise AttributeError(f"module 'muntin' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_DOORS[name]), name)
