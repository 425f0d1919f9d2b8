"""Sorted pages of rows with strict snapshots: what the in-memory and the paged form keep.

A page is a sorted stretch of keys with their values. Pages split when they outgrow a number of
bytes and join when they have shrunk. A snapshot shares every page and costs nothing; the first
write after it copies the list of pages, and each page that is then touched. A page may be nothing
but the number of a stored blob until its rows are read.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator

PageRows = tuple[list[bytes], list[bytes]]
ReadPage = Callable[[int], PageRows]


class Page:
    """Some rows in a row: in memory, or still in a numbered blob, or both."""

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
        """The keys and values, read from the blob if they aren't here yet."""
        if self._rows is None:
            if self._load is None or self.number is None:
                raise AssertionError("a page has rows, or knows where they are")
            self._rows = self._load(self.number)
        return self._rows

    def copy(self, stamp: int) -> Page:
        """A page of its own with the same rows, not stored yet."""
        keys, values = self.rows()
        return Page((list(keys), list(values)), self.bytes, stamp)


class PagesView:
    """A snapshot of the pages; later writes don't change it."""

    __slots__ = ("__weakref__", "lows", "pages")

    def __init__(self, lows: list[bytes], pages: list[Page]) -> None:
        self.lows = lows
        self.pages = pages

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        return _value(self.lows, self.pages, key)

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows from ``low`` to below ``high``, in order of keys."""
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
        most: How many bytes of keys and values a page may hold before it splits.
        view: Stored pages to start from.
    """

    def __init__(self, most: int, view: PagesView | None = None) -> None:
        self.most = most
        self.lows: list[bytes] = list(view.lows) if view else []
        self.pages: list[Page] = list(view.pages) if view else []
        self.left: list[Page] = []  # stored pages that are no longer part of this
        # Above every page's: what comes from elsewhere is shared until it is copied.
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
    def watched(self) -> bool:
        """Whether any snapshot is still in use."""
        return len(self._views) > 0

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        return _value(self.lows, self.pages, key)

    def put(self, key: bytes, value: bytes) -> None:
        """Add or replace a row."""
        self._detach()
        if not self.pages:
            self.lows.append(key)
            self.pages.append(Page(([], []), 0, self._stamp))
        index = max(bisect_right(self.lows, key) - 1, 0)
        page = self._own(index)
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
        if page.bytes > self.most and len(keys) > 1:
            # Rows that come in order fill their pages instead of leaving each half empty.
            in_order = at == len(keys) - 1 and index == len(self.pages) - 1
            self._split(index, at if in_order else _middle(page))

    def delete(self, key: bytes) -> None:
        """Forget a row, if it is here."""
        if self.get(key) is None:
            return
        self._detach()
        index = max(bisect_right(self.lows, key) - 1, 0)
        self._cut(index, key, key + b"\x00")
        self._settle(index)

    def delete_range(self, low: bytes, high: bytes) -> None:
        """Forget the rows from ``low`` to below ``high``; pages inside go without being read."""
        if low >= high or not self.pages:
            return
        self._detach()
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
            self._cut(index, low, high)
        if inside:
            self._drop(inside[0], inside[-1] + 1)
        for index in (first + 1, first):
            self._settle(index)

    def _detach(self) -> None:
        if self._latest is not None and self._latest() is not None:
            self.lows, self.pages = list(self.lows), list(self.pages)
            self._stamp += 1
        self._latest = None

    def _own(self, index: int) -> Page:
        """A page that may be written to: no snapshot has it, and no blob."""
        page = self.pages[index]
        if page.stamp != self._stamp or page.number is not None:
            if page.number is not None:
                self.left.append(page)
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
        # One great row can leave a half that is still too much.
        for number, half in ((index + 1, behind), (index, page)):
            if half.bytes > self.most and len(half.rows()[0]) > 1:
                self._split(number, _middle(half))

    def _cut(self, index: int, low: bytes, high: bytes) -> None:
        keys, _ = self.pages[index].rows()
        start, end = bisect_left(keys, low), bisect_left(keys, high)
        if start == end:
            return
        page = self._own(index)
        keys, values = page.rows()
        page.bytes -= sum(map(len, keys[start:end])) + sum(map(len, values[start:end]))
        del keys[start:end], values[start:end]

    def _drop(self, start: int, stop: int) -> None:
        self.left += [page for page in self.pages[start:stop] if page.number is not None]
        del self.pages[start:stop], self.lows[start:stop]

    def _settle(self, index: int) -> None:
        """Drop a page that is empty; join one that has shrunk with a neighbour."""
        if not 0 <= index < len(self.pages):
            return
        size = self.pages[index].bytes
        if not size:
            self._drop(index, index + 1)
        elif size <= self.most // 4:
            for first in (index - 1, index):
                beside = self.pages[max(first, 0) : first + 2]
                if len(beside) == 2 and sum(page.bytes for page in beside) <= self.most // 2:
                    self._join(first)
                    return

    def _join(self, index: int) -> None:
        page, behind = self._own(index), self.pages[index + 1]
        for mine, more in zip(page.rows(), behind.rows(), strict=True):
            mine += more
        page.bytes += behind.bytes
        self._drop(index + 1, index + 2)


def _value(lows: list[bytes], pages: list[Page], key: bytes) -> bytes | None:
    if not pages:
        return None
    keys, values = pages[max(bisect_right(lows, key) - 1, 0)].rows()
    at = bisect_left(keys, key)
    return values[at] if at < len(keys) and keys[at] == key else None


def _middle(page: Page) -> int:
    """Return the row to split a page at, so that neither half is empty."""
    keys, values = page.rows()
    half, size = page.bytes / 2, 0
    for at, key in enumerate(keys):
        size += len(key) + len(values[at])
        if size >= half:
            return min(max(at, 1), len(keys) - 1)
    raise AssertionError("the bytes of a page are those of its rows")
