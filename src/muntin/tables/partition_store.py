"""Where partitions live in a store of rows: their blobs, the offsets, and what was rejected.

Everything is held back until a batch is complete and then written in one flush, so that the store
never shows half a batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from muntin.model.errors import SpecChangedError
from muntin.state.blobs import HeldBlobs
from muntin.stores import KeyValue, KeyValueBlobs
from muntin.stores.keys import AFTER, decode, encode


def partition_blobs(store: KeyValue, app: str, number: int) -> HeldBlobs:
    """Where a partition of an app lives; nothing is written before it is released."""
    return HeldBlobs(KeyValueBlobs(store, name=f"{app} {number}"))


class PartitionStore:
    """What an app keeps in a store between runs.

    Args:
        store: The store; ``None`` keeps nothing.
        app: The app's name; several may share a store.
        partitions: How many partitions it has.
    """

    def __init__(self, store: KeyValue | None, app: str, partitions: int) -> None:
        self._store = store
        self._app = app
        self._partitions = partitions
        self._rejected = 0
        self.blobs: list[HeldBlobs | None] = [None] * partitions
        self.offsets: dict[str, int] = {}
        self.pending: list[Any] = []
        self.timers: dict[str, int] = {}
        if store is None:
            return
        marks = store.marks.get(app)
        if marks is not None:
            if marks["partitions"] != partitions:
                raise SpecChangedError(
                    f"the store was written with partitions={marks['partitions']}, not "
                    f"{partitions}; give that, or another store"
                )
            self.offsets, self.pending = marks["offsets"], marks["pending"]
            self._rejected = marks["rejected"]
            # An earlier build kept none.
            self.timers = marks.get("timers", {})
        self.blobs = [partition_blobs(store, app, number) for number in range(partitions)]

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
        self,
        offsets: dict[str, int],
        pending: list[Any],
        rejected: list[dict[str, Any]],
        timers: dict[str, int],
    ) -> None:
        """Make a batch durable, whole."""
        self.offsets, self.pending, self.timers = offsets, pending, timers
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
            "timers": timers,
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
