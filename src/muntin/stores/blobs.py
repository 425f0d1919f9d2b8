"""Stores the engine's state, numbered blobs and a manifest, as rows of a ``KeyValue``.

This is the reverse of ``paged``, which stores rows in blobs. An operator's state is flushed in the
same atomic write as everything else in the ``KeyValue``.
"""

from __future__ import annotations

from muntin.state.blobs import require_blob
from muntin.stores import keys
from muntin.stores.kv import KeyValue
from muntin.stores.namespace import Namespace

_MANIFEST = keys.encode_part("manifest")


class KeyValueBlobs:
    """Stores numbered blobs and one manifest; an implementation of ``muntin.state.blobs.Blobs``.

    Nothing is durable before the ``KeyValue`` is flushed.

    Args:
        kv: The rows, which other stores may share.
        name: The name in ``kv``.

    Raises:
        OptionError: When the name is taken.
        SpecChangedError: When something else was written under the name.

    Example:
        >>> from muntin.stores import memory
        >>> blobs = KeyValueBlobs(memory())
        >>> blobs.put(7, b"blob")
        >>> blobs.save("seven")
        >>> blobs.get(7), blobs.load()
        (b'blob', 'seven')
    """

    def __init__(self, kv: KeyValue, *, name: str = "blobs") -> None:
        self._namespace = Namespace(kv, name, {"kind": "blobs"}, "raw")

    def load(self) -> str | None:
        """Return the manifest, or ``None``."""
        text = self._namespace.get(_MANIFEST)
        return None if text is None else text.decode()

    def save(self, manifest: str) -> None:
        """Replace the manifest."""
        self._namespace.put(_MANIFEST, manifest.encode())

    def get(self, number: int) -> bytes:
        """Return a blob.

        Raises:
            StateCorruptedError: When the store lacks it.
        """
        return require_blob(number, self._namespace.get(keys.encode_part(number)))

    def put(self, number: int, blob: bytes) -> None:
        """Write a new blob; a number is never written twice."""
        self._namespace.put(keys.encode_part(number), blob)

    def remove(self, number: int) -> None:
        """Remove a blob."""
        self._namespace.delete(keys.encode_part(number))
