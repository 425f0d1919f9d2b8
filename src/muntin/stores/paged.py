"""The paged form: sorted pages as numbered blobs, with one manifest that lists them.

This is the form for a place that commits by itself, such as Spark's state: ``muntin.state.runs``
keeps its columns through the same protocol. A flush writes the pages that were touched, under new
numbers, then the manifest, then forgets the pages that were replaced. So what the manifest lists
is whole at every moment, also where the place commits nothing by itself.
"""

from __future__ import annotations

import secrets
import struct
import zlib

from muntin.model.errors import OptionError, StateCorruptedError
from muntin.state.blobs import Blobs
from muntin.state.envelope import seal, unseal
from muntin.state.manifest import Manifest, loads
from muntin.stores.kv import KeyValue
from muntin.stores.pages import Page, PageRows, Pages, PagesView

PAGE_BYTES = 64 << 10

_MAGIC = b"MNTP"
_LENGTHS = struct.Struct("<II")


class PagedKeyValue(KeyValue):
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

    _rows: Pages

    def __init__(self, blobs: Blobs, *, page_bytes: int = PAGE_BYTES) -> None:
        if page_bytes < 1:
            raise OptionError("page_bytes", page_bytes, "is no size", "give 65536, for instance")
        self._blobs = blobs
        manifest = blobs.load()
        stored = {} if manifest is None else loads(_checked(manifest), "pages").extra
        listed = stored.get("pages", ())
        pages = [Page(None, size, 0, number, self._read) for number, _, size in listed]
        lows = [bytes.fromhex(low) for _, low, _ in listed]
        super().__init__(Pages(page_bytes, PagesView(lows, pages)), stored.get("document"))

    def _commit(self, document: str) -> None:
        listed, fresh = [], []
        for low, page in zip(self._rows.lows, self._rows.pages, strict=True):
            number = page.number
            if number is None:
                # Drawn at random: after a crash, one may be in use that no manifest lists.
                number = secrets.randbits(62)
                fresh.append((page, number))
                self._blobs.put(number, encode_page(page.rows()))
            listed.append([number, low.hex(), page.bytes])
        manifest = Manifest("pages", extra={"document": document, "pages": listed}).dumps()
        self._blobs.save(_with_checksum(manifest))
        # From here on the flush has happened.
        for page, number in fresh:
            page.number = number
        left, self._rows.left = self._rows.left, []
        for page in left:
            if self._rows.watched:
                page.rows()  # a snapshot may ask for them when the blob is gone
            if page.number is not None:
                self._blobs.remove(page.number)

    def _read(self, number: int) -> PageRows:
        self._require_open()
        return decode_page(number, self._blobs.get(number))


def encode_page(rows: PageRows) -> bytes:
    """Write rows as one blob: lengths and bytes, in an envelope."""
    parts = []
    for key, value in zip(*rows, strict=True):
        parts += [_LENGTHS.pack(len(key), len(value)), key, value]
    return seal(_MAGIC, b"".join(parts))


def decode_page(number: int, blob: bytes) -> PageRows:
    """Read a blob that ``encode_page`` wrote.

    Raises:
        StateCorruptedError: When it isn't one, was written by a newer format, was cut or changed;
            the message names the blob's number.
    """
    body = bytes(unseal(_MAGIC, blob, f"blob {number}", "a page"))
    keys, values = [], []
    at = 0
    while at < len(body):
        key, value = _LENGTHS.unpack_from(body, at)
        at += _LENGTHS.size
        keys.append(body[at : at + key])
        values.append(body[at + key : at + key + value])
        at += key + value
    return keys, values


def _with_checksum(manifest: str) -> str:
    return f"{zlib.crc32(manifest.encode()):08x}{manifest}"


def _checked(stored: str) -> str:
    checksum, manifest = stored[:8], stored[8:]
    if f"{zlib.crc32(manifest.encode()):08x}" != checksum:
        raise StateCorruptedError("the manifest was cut or changed: its checksum doesn't fit")
    return manifest
