"""Where partitions live in a store of rows: their blobs, the offsets, and what was rejected.

Everything is held back until a batch is complete and then written in one flush, so that the store
never shows half a batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from muntin.model.errors import SpecChangedError, StateCorruptedError
from muntin.stores import KeyValue
from muntin.stores.keys import AFTER, decode, encode

_MANIFEST = -1


class HeldBlobs:
    """``muntin.engine.runs.Blobs`` of one partition, written only by ``release``."""

    def __init__(self, store: KeyValue, app: str, partition: int) -> None:
        self._store = store
        self._prefix = (app, "blob", partition)
        self._held: dict[int, bytes | None] = {}

    def load(self) -> str | None:
        """See ``Blobs``."""
        found = self._found(_MANIFEST)
        return None if found is None else found.decode()

    def save(self, manifest: str) -> None:
        """See ``Blobs``."""
        self._held[_MANIFEST] = manifest.encode()

    def get(self, number: int) -> bytes:
        """See ``Blobs``."""
        found = self._found(number)
        if found is None:
            raise StateCorruptedError(f"blob {number} of the manifest isn't in the store")
        return found

    def put(self, number: int, blob: bytes) -> None:
        """See ``Blobs``."""
        self._held[number] = blob

    def remove(self, number: int) -> None:
        """See ``Blobs``."""
        self._held[number] = None

    def _found(self, number: int) -> bytes | None:
        if number in self._held:
            return self._held[number]
        return self._store.get(encode((*self._prefix, number)))

    def release(self) -> None:
        """Write what was held back; it is durable with the store's next flush."""
        for number, blob in self._held.items():
            key = encode((*self._prefix, number))
            if blob is None:
                self._store.delete(key)
            else:
                self._store.put(key, blob)
        self._held = {}

    def forget(self) -> None:
        """Forget what was held back."""
        self._held = {}


class Kept:
    """What an app keeps in a store between runs.

    Args:
        store: The store; ``None`` keeps nothing.
        app: The app's name; several may share a store.
        partitions: How many partitions it has.

    Raises:
        SpecChangedError: When the store was written with another number of partitions.

    Attributes:
        blobs: The place of each partition.
        offsets: The number of the next message of each topic.
        pending: Messages that agents have sent and that nobody has worked on yet.
    """

    def __init__(self, store: KeyValue | None, app: str, partitions: int) -> None:
        self._store = store
        self._app = app
        self._partitions = partitions
        self._rejected = 0
        self.blobs: list[HeldBlobs | None] = [None] * partitions
        self.offsets: dict[str, int] = {}
        self.pending: list[Any] = []
        if store is None:
            return
        self.blobs = [HeldBlobs(store, app, number) for number in range(partitions)]
        marks = store.marks.get(app)
        if marks is not None:
            if marks["partitions"] != partitions:
                raise SpecChangedError(
                    f"the store was written with partitions={marks['partitions']}, not "
                    f"{partitions}; give that, or another store"
                )
            self.offsets, self.pending = marks["offsets"], marks["pending"]
            self._rejected = marks["rejected"]

    @property
    def durable(self) -> bool:
        """Whether there is a store at all."""
        return self._store is not None

    def rejected(self) -> Iterator[dict[str, Any]]:
        """The rejected events of earlier runs, oldest first."""
        if self._store is not None:
            low = encode((self._app, "rejected"))
            for key, value in self._store.scan(low, low + AFTER):
                assert decode(key)[:2] == (self._app, "rejected")
                yield json.loads(value)

    def commit(
        self, offsets: dict[str, int], pending: list[Any], rejected: list[dict[str, Any]]
    ) -> None:
        """Make a batch durable, whole.

        Args:
            offsets: The numbers of the next messages.
            pending: Messages on their way, as plain JSON.
            rejected: What was rejected, as plain JSON.
        """
        self.offsets, self.pending = offsets, pending
        if self._store is None:
            return
        for blobs in self.blobs:
            if blobs is not None:
                blobs.release()
        for row in rejected:
            key = encode((self._app, "rejected", self._rejected))
            self._store.put(key, json.dumps(row).encode())
            self._rejected += 1
        marks = {
            "partitions": self._partitions,
            "offsets": offsets,
            "pending": pending,
            "rejected": self._rejected,
        }
        self._store.flush({self._app: marks})

    def forget(self) -> None:
        """Forget what a batch that failed has left."""
        for blobs in self.blobs:
            if blobs is not None:
                blobs.forget()

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()
