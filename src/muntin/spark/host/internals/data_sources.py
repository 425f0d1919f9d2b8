"""Registers data sources that are written in Python with a session."""

from __future__ import annotations

from contextlib import suppress
from pkgutil import iter_modules
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from muntin.spark.host.internals.jvm import JvmError, classes_of, shares_python

# Prefix of modules in which Spark looks for data sources.
_OFFERS = "pyspark_"


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a source, so that a session can read from it by its name."""
    if shares_python(spark) and not any(m.name.startswith(_OFFERS) for m in iter_modules()):
        _stop_search(spark)
    spark.dataSource.register(source)


def _stop_search(spark: SparkSession) -> None:
    """Tell Spark that no modules have sources, so that it starts no Python process to search them.

    It would start one before it registers the first source, and wait a second or more for it.
    """
    # A version of Spark with other internals still searches the modules.
    with suppress(JvmError, AttributeError, TypeError):
        jvm = classes_of(spark)
        manager = _single(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager")
        if manager.dataSourceBuilders().isEmpty():
            none = _single(jvm.scala.collection.immutable, "Map").empty()
            getattr(manager, "dataSourceBuilders_$eq")(jvm.scala.Option.apply(none))


def _single(package: Any, name: str) -> Any:
    """Return the singleton object of a Scala class."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
