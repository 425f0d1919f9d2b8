"""What the versions of Spark that muntin runs on have under different names, or not at all.

Spark 4.1 asks a source in Python for its newest offset, and no more: such a source can't bound its
batches there.
"""

from __future__ import annotations

from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

BOUNDS_BATCHES = find_spec("pyspark.sql.streaming.datasource") is not None
# A query with a clock and ``available_now`` would take all there is in one batch otherwise.
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
        """A source that needn't know the trigger."""

    ReadAllAvailable = ReadLimit = ReadMaxRows = None


def find_state_stores(spark: SparkSession) -> None:
    """Let state be read in a session in which no query was started yet: Spark 4.1 can't else."""
    # Asking for the session's queries makes what knows where state stores are.
    _ = spark.streams


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow types in which Spark hands over columns; times in UTC."""
    return to_arrow_schema(schema, **_IN_UTC)
