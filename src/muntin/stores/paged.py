"""The paged form: sorted pages as numbered blobs, with one manifest that lists them.

This is the form for a place that commits by itself, such as Spark's state: ``muntin.state.runs``
keeps its columns through the same protocol. A flush writes the pages that were touched, under new
numbers, then the manifest, then forgets the pages that were replaced. So what the manifest lists
is whole at every moment, also where the place commits nothing by itself.
"""

from __future__ import annotations

import json
import secrets
import struct
import zlib
from typing import Any

from muntin.model.errors import OptionError, StateCorruptedError
from muntin.state.blobs import Blobs
from muntin.stores.pages import KeyValueInPages, Page, Pages, PagesView, Rows

FORMAT = 1
PAGE_BYTES = 64 << 10

_MAGIC = b"MNTP"
_HEADER = struct.Struct("<4sHII")
_LENGTHS = struct.Struct("<II")


class PagedKeyValue(KeyValueInPages):
    """``KeyValue`` over numbered blobs.

    A page is read when it is first asked for, checked (format, length, checksum), and kept for the
    life of the object. A flush costs what it touched, and the manifest: about 60 bytes a page.

    A crash between the writes of one flush leaves blobs that no manifest lists, where the place
    doesn't take them back by itself (Spark's state does). They take room and are never read.

    Args:
        blobs: The place.
        page_bytes: How great a page may grow, bytes of keys and values.

    Raises:
        OptionError: When ``page_bytes`` is below 1.
        StateCorruptedError: When the manifest can't be read back as it was written.
    """

    def __init__(self, blobs: Blobs, *, page_bytes: int = PAGE_BYTES) -> None:
        if page_bytes < 1:
            raise OptionError("page_bytes", page_bytes, "is no size", "give 65536, for instance")
        self._blobs = blobs
        manifest = blobs.load()
        read = _manifest(manifest) if manifest is not None else {"document": None, "pages": []}
        pages = [Page(None, size, 0, number, self._read) for number, _, size in read["pages"]]
        lows = [bytes.fromhex(low) for _, low, _ in read["pages"]]
        super().__init__(read["document"], Pages(page_bytes, PagesView(lows, pages)))

    def _commit(self, document: str) -> None:
        # Numbers are drawn at random: after a crash, one may be in use that no manifest lists.
        fresh = {id(p): secrets.randbits(62) for p in self._pages.pages if p.number is None}
        listed = []
        for low, page in zip(self._pages.lows, self._pages.pages, strict=True):
            number = page.number
            if number is None:
                number = fresh[id(page)]
                self._blobs.put(number, encode_page(page.rows()))
            listed.append([number, low.hex(), page.bytes])
        self._blobs.save(_sealed({"format": FORMAT, "document": document, "pages": listed}))
        # From here on the flush has happened.
        for page in self._pages.pages:
            if page.number is None:
                page.number = fresh[id(page)]
        left, self._pages.left = self._pages.left, []
        for page in left:
            if self._pages.watched:
                page.rows()  # a snapshot may ask for them when the blob is gone
            if page.number is not None:
                self._blobs.remove(page.number)

    def _read(self, number: int) -> Rows:
        self._require_open()
        return decode_page(number, self._blobs.get(number))


def encode_page(rows: Rows) -> bytes:
    """Write rows as one blob: a header with format, checksum and length, then lengths and bytes."""
    parts = []
    for key, value in zip(*rows, strict=True):
        parts += [_LENGTHS.pack(len(key), len(value)), key, value]
    body = b"".join(parts)
    return _HEADER.pack(_MAGIC, FORMAT, zlib.crc32(body), len(body)) + body


def decode_page(number: int, blob: bytes) -> Rows:
    """Read a blob that ``encode_page`` wrote.

    Raises:
        StateCorruptedError: When it isn't one, was written by a newer format, was cut or changed;
            the message names the blob's number.
    """
    if len(blob) < _HEADER.size or blob[:4] != _MAGIC:
        raise StateCorruptedError(f"blob {number} doesn't start as a page: it was replaced")
    _, version, checksum, length = _HEADER.unpack_from(blob)
    if version != FORMAT:
        raise StateCorruptedError(
            f"blob {number} has format {version}, this muntin reads format {FORMAT}: "
            "use the muntin that wrote it"
        )
    body = blob[_HEADER.size :]
    if len(body) != length:
        raise StateCorruptedError(f"blob {number} was cut: {len(body)} of {length} bytes are left")
    if zlib.crc32(body) != checksum:
        raise StateCorruptedError(f"blob {number} was changed: its checksum doesn't fit")
    keys, values = [], []
    at = 0
    while at < length:
        key, value = _LENGTHS.unpack_from(body, at)
        at += _LENGTHS.size
        keys.append(body[at : at + key])
        values.append(body[at + key : at + key + value])
        at += key + value
    return keys, values


def _sealed(manifest: dict[str, Any]) -> str:
    text = json.dumps(manifest, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}{text}"


def _manifest(sealed: str) -> dict[str, Any]:
    checksum, text = sealed[:8], sealed[8:]
    if f"{zlib.crc32(text.encode()):08x}" != checksum:
        raise StateCorruptedError("the manifest was cut or changed: its checksum doesn't fit")
    manifest: dict[str, Any] = json.loads(text)
    if manifest["format"] != FORMAT:
        raise StateCorruptedError(
            f"the manifest has format {manifest['format']}, this muntin reads format {FORMAT}: "
            "use the muntin that wrote it"
        )
    return manifest
