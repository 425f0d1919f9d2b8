"""Sorted pages of rows with strict snapshots, for the in-memory and the paged ``KeyValue``.

A page is a sorted range of keys with their values. Pages split when they exceed a number of bytes
and join when they have shrunk. A snapshot shares every page and costs nothing; the first
write after it copies the list of pages, and each page that is then changed. A page may consist of
just the number of a stored blob until its rows are read.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

PageRows = tuple[list[bytes], list[bytes]]
ReadPage = Callable[[int], PageRows]


class Page:
    """A range of rows: in memory, in a numbered blob, or both."""

    __slots__ = ("_load", "_rows", "bytes", "number", "stamp")

    def __init__(
        self,
        rows: PageRows | None,
        size: int,
        stamp: int = 0,
        number: int | None = None,
        load: ReadPage | None = None,
    ) -> None:
        self._rows = rows
        self._load = load
        self.bytes = size
        self.stamp = stamp
        self.number = number

    def rows(self) -> PageRows:
        """Return the keys and values, reading the blob if necessary."""
        if self._rows is None:
            if self._load is None or self.number is None:
                raise AssertionError("a page has rows, or knows where they are")
            self._rows = self._load(self.number)
        return self._rows

    def copy(self, stamp: int) -> Page:
        """Return a copy with the same rows that isn't stored yet."""
        keys, values = self.rows()
        return Page((list(keys), list(values)), self.bytes, stamp)


class PagesView:
    """A snapshot of the pages; later writes don't change it."""

    __slots__ = ("__weakref__", "lows", "pages")

    def __init__(self, lows: list[bytes], pages: list[Page]) -> None:
        self.lows = lows
        self.pages = pages

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or ``None``."""
        return _find_value(self.lows, self.pages, key)

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows from ``low`` to below ``high``, in order of keys."""
        first = 0 if low is None else max(bisect_right(self.lows, low) - 1, 0)
        stop = len(self.pages) if high is None else bisect_left(self.lows, high)
        order = range(first, stop)
        for number in reversed(order) if reverse else order:
            keys, values = self.pages[number].rows()
            start = 0 if low is None or number > first else bisect_left(keys, low)
            end = len(keys) if high is None or number < stop - 1 else bisect_left(keys, high)
            within = range(start, end)
            for at in reversed(within) if reverse else within:
                yield keys[at], values[at]


class Pages:
    """A sorted map of bytes in pages.

    Page ``n`` holds the keys from ``lows[n]`` to below ``lows[n + 1]``.

    Args:
        max_page_bytes: The maximum bytes of keys and values in a page before it splits.
        view: Stored pages to start from.
    """

    def __init__(self, max_page_bytes: int, view: PagesView | None = None) -> None:
        self.max_page_bytes = max_page_bytes
        self.lows: list[bytes] = list(view.lows) if view else []
        self.pages: list[Page] = list(view.pages) if view else []
        self.replaced: list[Page] = []  # stored pages that were replaced or dropped
        # Greater than the stamps of all pages, which are shared until they are copied.
        self._stamp = 1 + max((page.stamp for page in self.pages), default=0)
        self._latest: weakref.ref[PagesView] | None = None
        self._views: weakref.WeakSet[PagesView] = weakref.WeakSet()

    def snapshot(self) -> PagesView:
        """Return a view of the pages that later writes don't change."""
        latest = self._latest() if self._latest is not None else None
        if latest is None:
            latest = PagesView(self.lows, self.pages)
            self._latest = weakref.ref(latest)
            self._views.add(latest)
        return latest

    @property
    def has_snapshots(self) -> bool:
        """True while any snapshot is in use."""
        return len(self._views) > 0

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or ``None``."""
        return _find_value(self.lows, self.pages, key)

    def put(self, key: bytes, value: bytes) -> None:
        """Add or replace a row."""
        self._copy_on_write()
        if not self.pages:
            self.lows.append(key)
            self.pages.append(Page(([], []), 0, self._stamp))
        index = max(bisect_right(self.lows, key) - 1, 0)
        page = self._own_page(index)
        keys, values = page.rows()
        at = bisect_left(keys, key)
        if at < len(keys) and keys[at] == key:
            page.bytes += len(value) - len(values[at])
            values[at] = value
        else:
            page.bytes += len(key) + len(value)
            keys.insert(at, key)
            values.insert(at, value)
            if key < self.lows[index]:
                self.lows[index] = key
        if page.bytes > self.max_page_bytes and len(keys) > 1:
            # Appended rows fill their pages instead of leaving each half empty.
            in_order = at == len(keys) - 1 and index == len(self.pages) - 1
            self._split(index, at if in_order else _find_middle(page))

    def delete(self, key: bytes) -> None:
        """Delete a row, if there is one."""
        if self.get(key) is None:
            return
        self._copy_on_write()
        index = max(bisect_right(self.lows, key) - 1, 0)
        self._delete_within(index, key, key + b"\x00")
        self._join_if_small(index)

    def delete_range(self, low: bytes, high: bytes) -> None:
        """Delete the rows from ``low`` to below ``high``; inner pages aren't read."""
        if low >= high or not self.pages:
            return
        self._copy_on_write()
        first = max(bisect_right(self.lows, low) - 1, 0)
        stop = bisect_left(self.lows, high)
        if first >= stop:
            return
        inside = [
            n
            for n in range(first, stop)
            if self.lows[n] >= low and n + 1 < len(self.lows) and self.lows[n + 1] <= high
        ]
        for index in sorted({first, stop - 1} - set(inside)):
            self._delete_within(index, low, high)
        if inside:
            self._drop_pages(inside[0], inside[-1] + 1)
        for index in (first + 1, first):
            self._join_if_small(index)

    def _copy_on_write(self) -> None:
        if self._latest is not None and self._latest() is not None:
            self.lows, self.pages = list(self.lows), list(self.pages)
            self._stamp += 1
        self._latest = None

    def _own_page(self, index: int) -> Page:
        """Return a page that may be written: no snapshot and no blob shares it."""
        page = self.pages[index]
        if page.stamp != self._stamp or page.number is not None:
            if page.number is not None:
                self.replaced.append(page)
            page = self.pages[index] = page.copy(self._stamp)
        return page

    def _split(self, index: int, at: int) -> None:
        page = self.pages[index]
        keys, values = page.rows()
        size = sum(map(len, keys[at:])) + sum(map(len, values[at:]))
        behind = Page((keys[at:], values[at:]), size, self._stamp)
        self.pages.insert(index + 1, behind)
        self.lows.insert(index + 1, keys[at])
        page.bytes -= size
        del keys[at:], values[at:]
        # One large row can leave a half that is still too large.
        for number, half in ((index + 1, behind), (index, page)):
            if half.bytes > self.max_page_bytes and len(half.rows()[0]) > 1:
                self._split(number, _find_middle(half))

    def _delete_within(self, index: int, low: bytes, high: bytes) -> None:
        keys, _ = self.pages[index].rows()
        start, end = bisect_left(keys, low), bisect_left(keys, high)
        if start == end:
            return
        page = self._own_page(index)
        keys, values = page.rows()
        page.bytes -= sum(map(len, keys[start:end])) + sum(map(len, values[start:end]))
        del keys[start:end], values[start:end]

    def _drop_pages(self, start: int, stop: int) -> None:
        self.replaced += [page for page in self.pages[start:stop] if page.number is not None]
        del self.pages[start:stop], self.lows[start:stop]

    def _join_if_small(self, index: int) -> None:
        """Drop an empty page; join one that has shrunk with a neighbour."""
        if not 0 <= index < len(self.pages):
            return
        size = self.pages[index].bytes
        if not size:
            self._drop_pages(index, index + 1)
        elif size <= self.max_page_bytes // 4:
            for first in (index - 1, index):
                beside = self.pages[max(first, 0) : first + 2]
                if (
                    len(beside) == 2
                    and sum(page.bytes for page in beside) <= self.max_page_bytes // 2
                ):
                    self._join_with_next(first)
                    return

    def _join_with_next(self, index: int) -> None:
        page, behind = self._own_page(index), self.pages[index + 1]
        for mine, more in zip(page.rows(), behind.rows(), strict=True):
            mine += more
        page.bytes += behind.bytes
        self._drop_pages(index + 1, index + 2)


def _find_value(lows: list[bytes], pages: list[Page], key: bytes) -> bytes | None:
    if not pages:
        return None
    keys, values = pages[max(bisect_right(lows, key) - 1, 0)].rows()
    at = bisect_left(keys, key)
    return values[at] if at < len(keys) and keys[at] == key else None


def _find_middle(page: Page) -> int:
    """Return the row to split a page at, so that neither half is empty."""
    keys, values = page.rows()
    half, size = page.bytes / 2, 0
    for at, key in enumerate(keys):
        size += len(key) + len(values[at])
        if size >= half:
            return min(max(at, 1), len(keys) - 1)
    raise AssertionError("the bytes of a page are those of its rows")
