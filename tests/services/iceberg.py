"""Iceberg in the tests' session, where its jar is there for this Spark (`make test-spark`)."""

from __future__ import annotations

from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

_JARS = Path(__file__).parents[2] / "build" / "services" / f"iceberg-{pyspark.__version__}"


def has_iceberg() -> bool:
    """Whether the tests' session has it."""
    return _JARS.is_dir()


def iceberg_jars() -> list[Path]:
    """What the session's class path needs of it."""
    return sorted(_JARS.glob("*.jar"))


def iceberg_catalog(spark: SparkSession, folder: Path) -> str:
    """The name of a catalog of its own in a folder, with a namespace ``db``."""
    name = f"ice_{abs(hash(str(folder)))}"
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop"}
    # Else a session goes on seeing a table as it was when it looked first.
    settings[".cache-enabled"] = "false"
    for key, value in {**settings, ".warehouse": f"{folder}/{name}"}.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    spark.sql(f"CREATE NAMESPACE {name}.db")
    return name
