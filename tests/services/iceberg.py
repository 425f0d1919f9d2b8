"""Settings for Iceberg in the tests' session, if this Spark has its jar (`make test-spark`)."""

from __future__ import annotations

from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

_JARS = Path(__file__).parents[2] / "build" / "services" / f"iceberg-{pyspark.__version__}"


def has_iceberg() -> bool:
    """Return whether the tests' session has Iceberg."""
    return _JARS.is_dir()


def iceberg_jars() -> list[Path]:
    """Return the jars that Iceberg adds to the session's class path."""
    return sorted(_JARS.glob("*.jar"))


def iceberg_catalog(spark: SparkSession, folder: Path) -> str:
    """Create a catalog in a folder, with a namespace ``db``, and return its name."""
    name = f"ice_{abs(hash(str(folder)))}"
    settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop"}
    # Otherwise a session keeps reading a table as of its first read.
    settings[".cache-enabled"] = "false"
    for key, value in {**settings, ".warehouse": f"{folder}/{name}"}.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    spark.sql(f"CREATE NAMESPACE {name}.db")
    return name
