"""Computes the next item of an iterator in a thread while its current item is in use."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
_END: Any = object()


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yield the items of an iterator, and compute each while the item before it is in use.

    Fetching, decoding and combining messages take similar times, and most of each is spent outside
    of Python's interpreter lock, so that they run on several cores. At most one item waits. An
    error is raised where the item would come; ``items`` are closed when the caller stops.
    """
    with ThreadPoolExecutor(1, "muntin-read-ahead") as pool:
        future = pool.submit(next, items, _END)
        try:
            while (item := future.result()) is not _END:
                future = pool.submit(next, items, _END)
                yield item
        finally:
            future.exception()
            if close := getattr(items, "close", None):
                close()
