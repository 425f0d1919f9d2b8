"""Stores of state: numbered blobs and one manifest, and the envelope that every blob is in.

``muntin.stores.blobs`` stores them in rows of a ``KeyValue``, ``muntin.spark.host.state`` in
Spark's state store. The classes here keep them in memory, or wrap another store. A blob that was
truncated, swapped or damaged raises an error that names it; it is never read as wrong rows.
"""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from muntin.model.errors import StateCorruptedError

# A frame number above this means several blobs; its last bits are their count.
_SEVERAL_BLOBS, _COUNT_MODULUS = 1 << 62, 1 << 16
# Format 1 has the content as it is; format 2 has it compressed. The checksum is of the content.
_UNCOMPRESSED = 1
ENVELOPE_FORMAT = 2
_HEADER = struct.Struct("<4sHIQ")


class Blobs(Protocol):
    """Stores the state of a shard: numbered blobs and one manifest, committed together."""

    def load(self) -> str | None:
        """Return the manifest of the last commit, or ``None``."""

    def save(self, manifest: str) -> None:
        """Replace the manifest."""

    def get(self, number: int) -> bytes:
        """Return a blob, or raise ``StateCorruptedError`` when the store lacks it."""

    def put(self, number: int, blob: bytes) -> None:
        """Write a new blob; a number is never written twice."""

    def remove(self, number: int) -> None:
        """Remove a blob."""


def draw_number(blobs: int) -> int:
    """Draw a random number for a frame that takes ``blobs`` blobs."""
    return (
        secrets.randbits(62) if blobs == 1 else _SEVERAL_BLOBS | secrets.randbits(46) << 16 | blobs
    )


def list_blobs(number: int) -> range:
    """Return the numbers of a frame's blobs, in the order of its rows.

    Example:
        >>> len(list_blobs(draw_number(3))), [*list_blobs(7)]
        (3, [7])
    """
    count = number % _COUNT_MODULUS if number >= _SEVERAL_BLOBS else 0
    return range(number - count, number) if count else range(number, number + 1)


def missing_blob_error(number: int) -> StateCorruptedError:
    """Return the error for a blob that the manifest lists and the store lacks."""
    return StateCorruptedError(f"blob {number}, listed by the manifest, isn't in the state store")


def require_blob(number: int, blob: bytes | None) -> bytes:
    """Return a blob that the manifest lists, or raise if the store lacks it."""
    if blob is None:
        raise missing_blob_error(number)
    return blob


class MemoryBlobs:
    """Blobs in a dictionary, for tests and for batches that aren't stored; see ``Blobs``."""

    def __init__(self, manifest: str | None = None) -> None:
        self.manifest = manifest
        self.blobs: dict[int, bytes] = {}

    def load(self) -> str | None:
        return self.manifest

    def save(self, manifest: str) -> None:
        self.manifest = manifest

    def get(self, number: int) -> bytes:
        return require_blob(number, self.blobs.get(number))

    def put(self, number: int, blob: bytes) -> None:
        self.blobs[number] = blob

    def remove(self, number: int) -> None:
        del self.blobs[number]


class ReadBlobs(MemoryBlobs):
    """A store as of a commit, for reading from outside; see ``Blobs``."""

    def __init__(self, manifest: str, fetch: Callable[[], Mapping[int, bytes]]) -> None:
        super().__init__(manifest)
        self._fetch = fetch

    def save(self, manifest: str) -> None:
        """Refuse: this store is read only."""
        raise NotImplementedError("state that is read from outside isn't written")

    def get(self, number: int) -> bytes:
        return require_blob(number, self._fetch().get(number))

    def put(self, number: int, blob: bytes) -> None:
        """Refuse: this store is read only."""
        raise NotImplementedError("state that is read from outside isn't written")

    def remove(self, number: int) -> None:
        """Do nothing: merging runs while reading concerns this reader only, not the store."""


class BufferedBlobs:
    """Blobs whose changes are buffered until a batch is complete; see ``Blobs``."""

    def __init__(self, store: Blobs) -> None:
        self._store = store
        self._changes: dict[int, bytes | None] = {}
        self._manifest: str | None = None

    def load(self) -> str | None:
        return self._store.load() if self._manifest is None else self._manifest

    def save(self, manifest: str) -> None:
        self._manifest = manifest

    def get(self, number: int) -> bytes:
        if number in self._changes:
            return require_blob(number, self._changes[number])
        return self._store.get(number)

    def put(self, number: int, blob: bytes) -> None:
        self._changes[number] = blob

    def remove(self, number: int) -> None:
        self._changes[number] = None

    def release(self) -> None:
        """Write the buffered changes."""
        for number, blob in self._changes.items():
            if blob is None:
                self._store.remove(number)
            else:
                self._store.put(number, blob)
        if self._manifest is not None:
            self._store.save(self._manifest)
        self.discard()

    def discard(self) -> None:
        """Discard the buffered changes."""
        self._changes, self._manifest = {}, None


def seal(
    magic: bytes, body: bytes, compress: Callable[[bytes], bytes | None] | None = None
) -> bytes:
    """Wrap a blob in an envelope.

    Args:
        magic: Four bytes that name the kind of blob.
        body: The content.
        compress: Compresses the content, or returns ``None`` to leave it as it is.
    """
    compressed = None if compress is None else compress(body)
    version, stored = (_UNCOMPRESSED, body) if compressed is None else (ENVELOPE_FORMAT, compressed)
    return _HEADER.pack(magic, version, zlib.crc32(body), len(stored)) + stored


def unseal(
    magic: bytes,
    blob: bytes,
    name: str,
    kind: str,
    decompress: Callable[[memoryview], memoryview] | None = None,
) -> memoryview:
    """Return the content that ``seal`` wrapped.

    Args:
        magic: Four bytes that name the kind of blob.
        blob: The blob.
        name: The name of the blob, for errors.
        kind: The kind of blob, for errors.
        decompress: Reverses ``compress``, or raises ``ValueError``; ``None`` if blobs of this kind
            aren't compressed.

    Raises:
        StateCorruptedError: When the kind, format, length or checksum is wrong.
    """
    if len(blob) < _HEADER.size or blob[:4] != magic:
        raise StateCorruptedError(f"{name} doesn't start as {kind}: it was replaced")
    _, version, checksum, length = _HEADER.unpack_from(blob)
    newest = _UNCOMPRESSED if decompress is None else ENVELOPE_FORMAT
    if not _UNCOMPRESSED <= version <= newest:
        raise StateCorruptedError(
            f"{name} has format {version}, this muntin reads format {newest}: "
            "use the muntin that wrote it"
        )
    body = memoryview(blob)[_HEADER.size :]
    if length != len(body):
        raise StateCorruptedError(f"{name} was cut: {len(body)} of {length} bytes are left")
    if version == ENVELOPE_FORMAT and decompress is not None:
        try:
            body = decompress(body)
        except ValueError as error:
            raise StateCorruptedError(
                f"{name} was changed: it can't be decompressed: {error}"
            ) from error
    if zlib.crc32(body) != checksum:
        raise StateCorruptedError(f"{name} was changed: its checksum doesn't fit")
    return body
