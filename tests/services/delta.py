"""Delta in the tests' session, where its jars are there for this Spark (`make test-spark`)."""

from __future__ import annotations

from pathlib import Path

import pyspark

_JARS = Path(__file__).parents[2] / "build" / "services" / f"delta-{pyspark.__version__}"


def has_delta() -> bool:
    """Whether the tests' session has it."""
    return _JARS.is_dir()


def delta_jars() -> list[Path]:
    """What the session's class path needs of it."""
    return sorted(_JARS.glob("*.jar"))


def delta_settings() -> dict[str, str]:
    """What a session is started with beside its jars, as ``muntin.session`` takes it."""
    if not has_delta():
        return {}
    return {
        "spark__sql__extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark__sql__catalog__spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Else the log of each small table is read by fifty tasks.
        "spark__databricks__delta__snapshotPartitions": "2",
    }
