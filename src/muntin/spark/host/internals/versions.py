"""Bridges the differences between the versions of Spark that muntin supports.

Spark 4.1 asks a Python source only for its newest offset, so the source can't bound its batches.
"""

from __future__ import annotations

from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

BOUNDS_BATCHES = find_spec("pyspark.sql.streaming.datasource") is not None
# Without this setting, a query with a clock and ``available_now`` would read everything at once.
SETTINGS = (
    {} if BOUNDS_BATCHES else {"spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true"}
)
_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)

if TYPE_CHECKING:
    import pyarrow as pa

if TYPE_CHECKING or BOUNDS_BATCHES:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:

    class SupportsTriggerAvailableNow:
        """A stand-in for versions of Spark that don't pass the trigger to sources."""

    ReadAllAvailable = ReadLimit = ReadMaxRows = None


def enable_state_readers(spark: SparkSession) -> None:
    """Let Spark 4.1 read state in a session that hasn't started a query yet."""
    # Spark creates the coordinator of state stores when it is asked for the session's queries.
    _ = spark.streams


def make_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of Spark's columns, with times in UTC."""
    return to_arrow_schema(schema, **_IN_UTC)
