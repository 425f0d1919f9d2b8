"""Sources that are written in Python, and how a session learns of them."""

from __future__ import annotations

from contextlib import suppress
from pkgutil import iter_modules
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from muntin.spark.host.internals.jvm import JvmError, classes_of, shares_python

# What a module is called in which Spark looks for a source.
_OFFERS = "pyspark_"


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Let a session read from a source by its name."""
    if shares_python(spark) and not any(m.name.startswith(_OFFERS) for m in iter_modules()):
        _say_that_there_are_none(spark)
    spark.dataSource.register(source)


def _say_that_there_are_none(spark: SparkSession) -> None:
    """Spare Spark the Python process with which it would look for sources among the modules.

    It starts one before the first source that is registered, and waits for it: a second or more.
    """
    # Where a version of Spark has it otherwise, it looks for itself.
    with suppress(JvmError, AttributeError, TypeError):
        jvm = classes_of(spark)
        known = _single(jvm.org.apache.spark.sql.execution.datasources, "DataSourceManager")
        if known.dataSourceBuilders().isEmpty():
            none = _single(jvm.scala.collection.immutable, "Map").empty()
            getattr(known, "dataSourceBuilders_$eq")(jvm.scala.Option.apply(none))


def _single(package: Any, name: str) -> Any:
    """The one object of a class of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")
