"""``KeyValue`` in memory: sorted pages of this process, and an image of the last flush."""

from __future__ import annotations

from muntin.stores.kv import KeyValue
from muntin.stores.pages import Pages, PagesView

MEMORY_PAGE_BYTES = 16 << 10


class Image:
    """The rows and marks of the last flush, in memory; a store opened on it starts with them."""

    def __init__(self) -> None:
        self.document: str | None = None
        self.view: PagesView | None = None

    def replace(self, document: str, view: PagesView) -> None:
        """Replace the image with a newer flush."""
        self.document, self.view = document, view


class MemoryKeyValue(KeyValue):
    """``KeyValue`` in memory; a flush costs the same however much is stored.

    Args:
        image: The target of flushes; a new one by default. Opening the same image again
            corresponds to a restart.
        page_bytes: The maximum size of a page, bytes of keys and values.
    """

    _rows: Pages

    def __init__(self, image: Image | None = None, *, page_bytes: int = MEMORY_PAGE_BYTES) -> None:
        self.image = image or Image()
        super().__init__(Pages(page_bytes, self.image.view), self.image.document)

    def _commit(self, document: str) -> None:
        self.image.replace(document, self._rows.snapshot())
