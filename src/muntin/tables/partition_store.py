"""Stores partitions in a ``KeyValue``: their blobs, the source offsets, and rejected events.

Everything is buffered until a batch is complete and then written in one flush, so that the store
never contains half a batch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from muntin.model.errors import SpecChangedError
from muntin.state.blobs import BufferedBlobs
from muntin.stores import KeyValue, KeyValueBlobs
from muntin.stores.keys import AFTER, encode_key
from muntin.tables import packed, typed
from muntin.tables.partition import Rejected
from muntin.tables.sources import NumberedMessage, TopicMessage

if TYPE_CHECKING:
    from muntin.tables.app import App


def open_partition_blobs(store: KeyValue, app: str, number: int) -> BufferedBlobs:
    """Return the blobs of a partition of an app, which are written when they are released."""
    return BufferedBlobs(KeyValueBlobs(store, name=f"{app} {number}"))


class PartitionStore:
    """The state of an app that a store keeps between runs.

    Several apps may share a store. Without one, nothing is kept.

    Attributes:
        blobs: The blobs of each partition.
        offsets: Number of processed messages of each topic's source.
        pending: Messages that agents have sent and no agent has processed.
        timers: When each timer last ran.
        rejected: The rejected events of earlier runs, oldest first.
    """

    def __init__(self, store: KeyValue | None, app: App, partitions: int) -> None:
        self._store = store
        self._app = app
        self.blobs: list[BufferedBlobs | None] = [None] * partitions
        self.offsets: dict[str, int] = {}
        self.pending: list[NumberedMessage] = []
        self.timers: dict[str, int] = {}
        self.rejected: list[Rejected] = []
        self._rejected_count = 0
        if store is None:
            return
        stored = store.marks.get(app.name)
        if stored is not None:
            if stored["partitions"] != partitions:
                raise SpecChangedError(
                    f"the store was written with partitions={stored['partitions']}, not "
                    f"{partitions}; give that, or another store"
                )
            self.offsets = stored["offsets"]
            self.pending = [self._read_message(row) for row in stored["pending"]]
            self._rejected_count = stored["rejected"]
            # Earlier versions stored no timers.
            self.timers = stored.get("timers", {})
        self.blobs = [open_partition_blobs(store, app.name, number) for number in range(partitions)]
        low = encode_key((app.name, "rejected"))
        self.rejected = [Rejected(**json.loads(row)) for _, row in store.scan(low, low + AFTER)]

    def commit(
        self,
        offsets: dict[str, int],
        pending: list[NumberedMessage],
        rejected: Sequence[Rejected],
        timers: dict[str, int],
    ) -> None:
        """Make a batch durable, as a whole."""
        self.offsets, self.pending, self.timers = offsets, pending, timers
        if self._store is None:
            return
        progress = {
            "partitions": len(self.blobs),
            "offsets": offsets,
            "pending": [self._write_message(row) for row in pending],
            "rejected": self._rejected_count + len(rejected),
            "timers": timers,
        }
        for blobs in self.blobs:
            if blobs is not None:
                blobs.release()
        for number, event in enumerate(rejected, self._rejected_count):
            row = {
                **vars(event),
                "value": _describe_value(event.value),
                "key": _describe_value(event.key),
            }
            key = encode_key((self._app.name, "rejected", number))
            self._store.put(key, json.dumps(row).encode())
        self._rejected_count += len(rejected)
        self._store.flush({self._app.name: progress})

    def _write_message(self, row: NumberedMessage) -> list[Any]:
        """Convert a pending message to plain JSON."""
        topic, _, message = row
        value = typed.make_codec(self._app.topics[topic].value_type).dumps(message.value)
        return [topic, value, packed.write_json(message.key), message.time]

    def _read_message(self, row: Sequence[Any]) -> NumberedMessage:
        topic, value, key, time = row
        if topic not in self._app.topics:
            raise SpecChangedError(
                f"a message is on its way to the topic {topic!r}, which the app no longer has; "
                "let an agent read it, or start with a new store"
            )
        read_value = typed.make_codec(self._app.topics[topic].value_type).loads(value)
        return topic, None, TopicMessage.from_values(read_value, packed.read_json(key), time)

    def discard_batch(self) -> None:
        """Discard the buffered writes of a failed batch."""
        for blobs in self.blobs:
            if blobs is not None:
                blobs.discard()

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()


def _describe_value(value: Any) -> Any:
    """Return a value that JSON can hold, or a description of the value."""
    try:
        plain = typed.to_plain(value)
        json.dumps(plain, ensure_ascii=False).encode()
    except Exception as error:
        # The value is nested too deeply, has text that isn't UTF-8, or a method of its type fails.
        return f"<{type(value).__name__} that can't be kept: {type(error).__name__}>"
    return plain
