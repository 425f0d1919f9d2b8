"""Where state is kept: numbered blobs and one manifest.

Rows of a ``KeyValue`` hold blobs in ``muntin.stores.blobs``, Spark's state store in
``muntin.spark.host.state``; what is here keeps them in memory, or stands before others.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Protocol

from muntin.model.errors import StateCorruptedError

# From this number on a frame lies in several blobs, and the number's last bits say in how many.
_SEVERAL, _COUNT = 1 << 62, 1 << 16


class Blobs(Protocol):
    """Stores the state of a shard: numbered blobs and one manifest, committed together."""

    def load(self) -> str | None:
        """The manifest of the last commit; ``None`` where there was none."""

    def save(self, manifest: str) -> None:
        """Replace the manifest."""

    def get(self, number: int) -> bytes:
        """A blob.

        Raises:
            StateCorruptedError: When it isn't there.
        """

    def put(self, number: int, blob: bytes) -> None:
        """Write a new blob; a number is never written twice."""

    def remove(self, number: int) -> None:
        """Forget a blob."""


def drawn(blobs: int) -> int:
    """A number for a frame that takes so many blobs, drawn at random."""
    return secrets.randbits(62) if blobs == 1 else _SEVERAL | secrets.randbits(46) << 16 | blobs


def blobs_of(number: int) -> range:
    """The numbers of the blobs that a frame lies in, in the order of its rows.

    Example:
        >>> len(blobs_of(drawn(3))), [*blobs_of(7)]
        (3, [7])
    """
    count = number % _COUNT if number >= _SEVERAL else 0
    return range(number - count, number) if count else range(number, number + 1)


def missing(number: int) -> StateCorruptedError:
    """Return the error for a blob that the manifest lists and the store lacks."""
    return StateCorruptedError(f"blob {number}, listed by the manifest, isn't in the state store")


def found(number: int, blob: bytes | None) -> bytes:
    """Return a blob that the manifest lists, or raise where the store lacks it."""
    if blob is None:
        raise missing(number)
    return blob


class MemoryBlobs:
    """Blobs in a dictionary, for tests and for batches that keep nothing; see ``Blobs``."""

    def __init__(self, manifest: str | None = None) -> None:
        self.manifest = manifest
        self.blobs: dict[int, bytes] = {}

    def load(self) -> str | None:
        return self.manifest

    def save(self, manifest: str) -> None:
        self.manifest = manifest

    def get(self, number: int) -> bytes:
        return found(number, self.blobs.get(number))

    def put(self, number: int, blob: bytes) -> None:
        self.blobs[number] = blob

    def remove(self, number: int) -> None:
        del self.blobs[number]


class PartBlobs(MemoryBlobs):
    """A part of a store: its blobs are the store's, its manifest is its own; see ``Blobs``."""

    def __init__(self, store: Blobs, manifest: str | None = None) -> None:
        super().__init__(manifest)
        self.store = store

    def get(self, number: int) -> bytes:
        return self.store.get(number)

    def put(self, number: int, blob: bytes) -> None:
        self.store.put(number, blob)

    def remove(self, number: int) -> None:
        self.store.remove(number)


class ReadBlobs(MemoryBlobs):
    """A store as it was at a commit, read from outside; see ``Blobs``."""

    def __init__(self, manifest: str, fetch: Callable[[], Mapping[int, bytes]]) -> None:
        super().__init__(manifest)
        self._fetch = fetch

    def save(self, manifest: str) -> None:
        """Refuse: this store is read only."""
        raise NotImplementedError("state that is read from outside isn't written")

    def get(self, number: int) -> bytes:
        return found(number, self._fetch().get(number))

    def put(self, number: int, blob: bytes) -> None:
        """Refuse: this store is read only."""
        raise NotImplementedError("state that is read from outside isn't written")

    def remove(self, number: int) -> None:
        """Do nothing: folding runs while reading changes this reader only, not the store."""


class HeldBlobs:
    """Blobs whose changes are held back until a batch is complete; see ``Blobs``."""

    def __init__(self, store: Blobs) -> None:
        self._store = store
        self._held: dict[int, bytes | None] = {}
        self._manifest: str | None = None

    def load(self) -> str | None:
        return self._store.load() if self._manifest is None else self._manifest

    def save(self, manifest: str) -> None:
        self._manifest = manifest

    def get(self, number: int) -> bytes:
        if number in self._held:
            return found(number, self._held[number])
        return self._store.get(number)

    def put(self, number: int, blob: bytes) -> None:
        self._held[number] = blob

    def remove(self, number: int) -> None:
        self._held[number] = None

    def release(self) -> None:
        """Write what was held back."""
        for number, blob in self._held.items():
            if blob is None:
                self._store.remove(number)
            else:
                self._store.put(number, blob)
        if self._manifest is not None:
            self._store.save(self._manifest)
        self.forget()

    def forget(self) -> None:
        """Forget what was held back."""
        self._held, self._manifest = {}, None
