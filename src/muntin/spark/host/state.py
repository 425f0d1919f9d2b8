"""Stores numbered blobs in Spark's state, in one map state that includes the manifest."""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructType

from muntin.state.blobs import require_blob

# The number of the manifest; blobs have numbers from 0. One state variable for both is faster than
# two.
MANIFEST = -1
# Use schemas as objects: the JVM would parse texts, four times for each shard and batch.
_NUMBER, _BLOB = StructType().add("number", LongType()), StructType().add("blob", BinaryType())


class SparkBlobs:
    """``muntin.state.blobs.Blobs`` in Spark's state store, which Spark commits with the batch.

    Like every state variable, it contains the state of the grouping key that is being processed.

    Args:
        handle: The handle that Spark passes to a processor's ``init``; only there may an instance
            be created.
        name: The name of the state variable.
    """

    def __init__(self, handle: StatefulProcessorHandle, name: str = "blobs") -> None:
        self._blobs = handle.getMapState(name, _NUMBER, _BLOB)

    def load(self) -> str | None:
        row = self._blobs.getValue((MANIFEST,))
        return None if row is None else bytes(row[0]).decode()

    def save(self, manifest: str) -> None:
        self._blobs.updateValue((MANIFEST,), (manifest.encode(),))

    def get(self, number: int) -> bytes:
        row = self._blobs.getValue((number,))
        return require_blob(number, None if row is None else bytes(row[0]))

    def put(self, number: int, blob: bytes) -> None:
        self._blobs.updateValue((number,), (blob,))

    def remove(self, number: int) -> None:
        self._blobs.removeKey((number,))
