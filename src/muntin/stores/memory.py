"""The in-memory form: sorted pages of this process, and an image of the last flush."""

from __future__ import annotations

from muntin.stores.kv import KeyValue
from muntin.stores.pages import Pages, PagesView

PAGE_BYTES = 16 << 10


class Image:
    """The rows and marks of the last flush, in memory; a store opened on it starts with them."""

    def __init__(self) -> None:
        self.document: str | None = None
        self.view: PagesView | None = None

    def replace(self, document: str, view: PagesView) -> None:
        """Take the place of what was flushed before."""
        self.document, self.view = document, view


class MemoryKeyValue(KeyValue):
    """``KeyValue`` in memory; a flush costs the same whatever is kept.

    Args:
        image: Where flushes go; a new one where it isn't given. Opening the same image again is
            what a restart is to the forms on a disk.
        page_bytes: How great a page may grow, bytes of keys and values.
    """

    _rows: Pages

    def __init__(self, image: Image | None = None, *, page_bytes: int = PAGE_BYTES) -> None:
        self.image = image or Image()
        super().__init__(Pages(page_bytes, self.image.view), self.image.document)

    def _commit(self, document: str) -> None:
        self.image.replace(document, self._rows.snapshot())
