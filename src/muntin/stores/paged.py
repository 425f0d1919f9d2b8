"""``KeyValue`` in numbered blobs: sorted pages, with one manifest that lists them.

This is for a place that commits by itself, such as Spark's state; ``muntin.state.runs`` stores
its columns through the same protocol. A flush writes the changed pages under new numbers, then
the manifest, then removes the replaced pages. So the pages in the manifest are complete at every
moment, even if the place doesn't commit atomically.
"""

from __future__ import annotations

import secrets
import struct
import zlib

from muntin.model.errors import OptionError, StateCorruptedError
from muntin.state.blobs import Blobs, seal, unseal
from muntin.state.manifest import Manifest, parse_manifest
from muntin.stores.kv import KeyValue
from muntin.stores.pages import Page, PageRows, Pages, PagesView

BLOB_PAGE_BYTES = 64 << 10

_MAGIC = b"MNTP"
_LENGTHS = struct.Struct("<II")


class PagedKeyValue(KeyValue):
    """``KeyValue`` over numbered blobs.

    A page is read when first used, checked (format, length, checksum), and cached for the life of
    the object. A flush writes the changed pages and the manifest: about 60 bytes a page.

    After a crash between the writes of one flush, blobs may remain that no manifest lists, unless
    the place undoes them (Spark's state does). They take space and are never read.

    Args:
        blobs: The blobs.
        page_bytes: The maximum size of a page, bytes of keys and values.

    Raises:
        OptionError: When ``page_bytes`` is below 1.
        StateCorruptedError: When the manifest can't be read.
    """

    _rows: Pages

    def __init__(self, blobs: Blobs, *, page_bytes: int = BLOB_PAGE_BYTES) -> None:
        if page_bytes < 1:
            raise OptionError("page_bytes", page_bytes, "is no size", "give 65536, for instance")
        self._blobs = blobs
        manifest = blobs.load()
        stored = (
            {} if manifest is None else parse_manifest(_verify_checksum(manifest), "pages").extra
        )
        page_list = stored.get("pages", ())
        pages = [Page(None, size, 0, number, self._read_page) for number, _, size in page_list]
        lows = [bytes.fromhex(low) for _, low, _ in page_list]
        super().__init__(Pages(page_bytes, PagesView(lows, pages)), stored.get("document"))

    def _commit(self, document: str) -> None:
        page_list, fresh = [], []
        for low, page in zip(self._rows.lows, self._rows.pages, strict=True):
            number = page.number
            if number is None:
                # Random, because after a crash a number may be in use that no manifest lists.
                number = secrets.randbits(62)
                fresh.append((page, number))
                self._blobs.put(number, encode_page(page.rows()))
            page_list.append([number, low.hex(), page.bytes])
        manifest = Manifest("pages", extra={"document": document, "pages": page_list}).dumps()
        self._blobs.save(_with_checksum(manifest))
        # The flush is durable from here on.
        for page, number in fresh:
            page.number = number
        replaced, self._rows.replaced = self._rows.replaced, []
        for page in replaced:
            if self._rows.has_snapshots:
                page.rows()  # a snapshot may read them after the blob is removed
            if page.number is not None:
                self._blobs.remove(page.number)

    def _read_page(self, number: int) -> PageRows:
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
        StateCorruptedError: When it isn't a page, has a newer format, or was truncated or changed;
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


def _verify_checksum(stored: str) -> str:
    checksum, manifest = stored[:8], stored[8:]
    if f"{zlib.crc32(manifest.encode()):08x}" != checksum:
        raise StateCorruptedError("the manifest was cut or changed: its checksum doesn't fit")
    return manifest
