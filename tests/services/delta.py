"""Settings for Delta in the tests' session, if this Spark has its jars (`make test-spark`)."""

from __future__ import annotations

from pathlib import Path

import pyspark

_JARS = Path(__file__).parents[2] / "build" / "services" / f"delta-{pyspark.__version__}"


def has_delta() -> bool:
    """Return whether the tests' session has Delta."""
    return _JARS.is_dir()


def delta_jars() -> list[Path]:
    """Return the jars that Delta adds to the session's class path."""
    return sorted(_JARS.glob("*.jar"))


def delta_settings() -> dict[str, str]:
    """Return the settings of a session with Delta, as options of ``muntin.session``."""
    if not has_delta():
        return {}
    return {
        "spark__sql__extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark__sql__catalog__spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Otherwise fifty tasks read the log of each small table.
        "spark__databricks__delta__snapshotPartitions": "2",
    }
