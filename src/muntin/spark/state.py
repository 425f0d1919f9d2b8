"""A shard's store over Spark's: the manifest a value state, the blobs a map state."""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from muntin.model.errors import StateCorruptedError


class SparkBlobs:
    """``muntin.engine.runs.Blobs`` in Spark's state store; committed by Spark with the batch."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._manifest = handle.getValueState("manifest", "text string")
        self._blobs = handle.getMapState("blobs", "number long", "blob binary")

    def load(self) -> str | None:
        """See ``Blobs``."""
        row = self._manifest.get()
        return None if row is None else row[0]

    def save(self, manifest: str) -> None:
        """See ``Blobs``."""
        self._manifest.update((manifest,))

    def get(self, number: int) -> bytes:
        """See ``Blobs``."""
        row = self._blobs.getValue((number,))
        if row is None:
            raise StateCorruptedError(f"blob {number} of the manifest isn't in the state store")
        return bytes(row[0])

    def put(self, number: int, blob: bytes) -> None:
        """See ``Blobs``."""
        self._blobs.updateValue((number,), (blob,))

    def remove(self, number: int) -> None:
        """See ``Blobs``."""
        self._blobs.removeKey((number,))
