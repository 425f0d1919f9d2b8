"""Numbered blobs and a manifest as rows of a ``KeyValue``: what the engine keeps its state in.

The other way round than ``paged``: there rows lie in blobs, here blobs lie among the rows, so that
an operator's state is flushed in the same atomic write as whatever else is in the ``KeyValue``.
"""

from __future__ import annotations

from muntin.state.blobs import found
from muntin.stores import keys
from muntin.stores.kv import KeyValue
from muntin.stores.namespace import Namespace

_MANIFEST = keys.encode_part("manifest")


class KeyValueBlobs:
    """A place for numbered blobs and one manifest; ``muntin.state.blobs.Blobs`` is such a one.

    Nothing is durable before the ``KeyValue`` is flushed.

    Args:
        kv: Where the rows are kept; other stores may be in it.
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
        """The manifest; ``None`` where there is none."""
        text = self._namespace.get(_MANIFEST)
        return None if text is None else text.decode()

    def save(self, manifest: str) -> None:
        """Replace the manifest."""
        self._namespace.put(_MANIFEST, manifest.encode())

    def get(self, number: int) -> bytes:
        """A blob.

        Raises:
            StateCorruptedError: When it isn't there.
        """
        return found(number, self._namespace.get(keys.encode_part(number)))

    def put(self, number: int, blob: bytes) -> None:
        """Write a new blob; a number is never written twice."""
        self._namespace.put(keys.encode_part(number), blob)

    def remove(self, number: int) -> None:
        """Forget a blob."""
        self._namespace.delete(keys.encode_part(number))
