"""Where partitions live in a store of rows: their blobs, the offsets, and what was rejected.

Everything is held back until a batch is complete and then written in one flush, so that the store
never shows half a batch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from muntin.model.errors import SpecChangedError
from muntin.state.blobs import HeldBlobs
from muntin.stores import KeyValue, KeyValueBlobs
from muntin.stores.keys import AFTER, encode
from muntin.tables import packed, typed
from muntin.tables.partition import Rejected
from muntin.tables.sources import NumberedMessage, TopicMessage

if TYPE_CHECKING:
    from muntin.tables.app import App


def partition_blobs(store: KeyValue, app: str, number: int) -> HeldBlobs:
    """Where a partition of an app lives; nothing is written before it is released."""
    return HeldBlobs(KeyValueBlobs(store, name=f"{app} {number}"))


class PartitionStore:
    """What an app keeps in a store between runs.

    Args:
        store: The store; ``None`` keeps nothing.
        app: The app; several may share a store.
        partitions: How many partitions it has.

    Attributes:
        blobs: Where each partition is kept.
        offsets: How many messages of each topic's source were worked through.
        pending: What agents have sent to each other and nobody has worked through.
        timers: When each timer last ran.
        rejected: The rejected events of earlier runs, oldest first.
    """

    def __init__(self, store: KeyValue | None, app: App, partitions: int) -> None:
        self._store = store
        self._app = app
        self.blobs: list[HeldBlobs | None] = [None] * partitions
        self.offsets: dict[str, int] = {}
        self.pending: list[NumberedMessage] = []
        self.timers: dict[str, int] = {}
        self.rejected: list[Rejected] = []
        self._rejected = 0
        if store is None:
            return
        marks = store.marks.get(app.name)
        if marks is not None:
            if marks["partitions"] != partitions:
                raise SpecChangedError(
                    f"the store was written with partitions={marks['partitions']}, not "
                    f"{partitions}; give that, or another store"
                )
            self.offsets = marks["offsets"]
            self.pending = [self._read(row) for row in marks["pending"]]
            self._rejected = marks["rejected"]
            # An earlier build kept none.
            self.timers = marks.get("timers", {})
        self.blobs = [partition_blobs(store, app.name, number) for number in range(partitions)]
        low = encode((app.name, "rejected"))
        self.rejected = [Rejected(**json.loads(row)) for _, row in store.scan(low, low + AFTER)]

    def commit(
        self,
        offsets: dict[str, int],
        pending: list[NumberedMessage],
        rejected: Sequence[Rejected],
        timers: dict[str, int],
    ) -> None:
        """Make a batch durable, whole."""
        self.offsets, self.pending, self.timers = offsets, pending, timers
        if self._store is None:
            return
        marks = {
            "partitions": len(self.blobs),
            "offsets": offsets,
            "pending": [self._written(row) for row in pending],
            "rejected": self._rejected + len(rejected),
            "timers": timers,
        }
        for blobs in self.blobs:
            if blobs is not None:
                blobs.release()
        for number, event in enumerate(rejected, self._rejected):
            row = {**vars(event), "value": _shown(event.value), "key": _shown(event.key)}
            key = encode((self._app.name, "rejected", number))
            self._store.put(key, json.dumps(row).encode())
        self._rejected += len(rejected)
        self._store.flush({self._app.name: marks})

    def _written(self, row: NumberedMessage) -> list[Any]:
        """A message on its way, as plain JSON."""
        topic, _, message = row
        value = typed.codec_of(self._app.topics[topic].value_type).dumps(message.value)
        return [topic, value, packed.dumps(message.key), message.time]

    def _read(self, row: Sequence[Any]) -> NumberedMessage:
        topic, value, key, time = row
        if topic not in self._app.topics:
            raise SpecChangedError(
                f"a message is on its way to the topic {topic!r}, which the app no longer has; "
                "let an agent read it, or start with a new store"
            )
        found = typed.codec_of(self._app.topics[topic].value_type).loads(value)
        return topic, None, TopicMessage.sent(found, packed.loads(key), time)

    def forget(self) -> None:
        """Forget what a batch that failed has left."""
        for blobs in self.blobs:
            if blobs is not None:
                blobs.forget()

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()


def _shown(value: Any) -> Any:
    """A value as JSON can hold it, or in words what it is."""
    try:
        found = typed.as_plain(value)
        json.dumps(found, ensure_ascii=False).encode()
    except Exception as error:
        # Nested deeper than JSON goes, text that isn't UTF-8, or a method of the user's own.
        return f"<{type(value).__name__} that can't be kept: {type(error).__name__}>"
    return found
