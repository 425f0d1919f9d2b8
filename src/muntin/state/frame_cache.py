"""Frames in a store of blobs, and a cache of those that this process has decoded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable

import polars as pl

from muntin.state.blobs import Blobs, draw_number, list_blobs
from muntin.state.frames import decode_blobs, encode_blobs

Complete = Callable[[pl.DataFrame], pl.DataFrame]


class FrameCache:
    """Decoded frames of this process; the least recently used is dropped first.

    A frame's number is random and written once. So a cached frame is either the stored content,
    or belongs to a batch that was never committed and whose number isn't read again: a
    retried batch can't read a wrong one.
    """

    def __init__(self, most_bytes: int = 512 << 20) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._frames: OrderedDict[int, tuple[pl.DataFrame, int]] = OrderedDict()
        self._owner: Hashable = None
        self._owned: dict[Hashable, set[int]] = {}

    def set_owner(self, owner: Hashable) -> None:
        """Set the owner of the following frames, as several shards share this cache."""
        self._owner = owner

    def retain(self, numbers: Collection[int]) -> None:
        """Forget the frames of this owner that its store no longer has.

        Another process may have continued the shard meanwhile, and have removed blobs.
        """
        owned = self._owned.setdefault(self._owner, set())
        for number in owned.difference(numbers):
            self.drop(number)

    def get(self, number: int) -> pl.DataFrame | None:
        """Return a cached frame, or ``None``."""
        entry = self._frames.get(number)
        if entry is None:
            return None
        self._frames.move_to_end(number)
        return entry[0]

    def put(self, number: int, frame: pl.DataFrame) -> None:
        """Cache a frame, and drop others if the cache gets too large."""
        size = int(frame.estimated_size())
        if size > self.most_bytes:
            return
        self._frames[number] = (frame, size)
        self._owned.setdefault(self._owner, set()).add(number)
        self.bytes += size
        while self.bytes > self.most_bytes:
            _, (_, freed) = self._frames.popitem(last=False)
            self.bytes -= freed

    def drop(self, number: int) -> None:
        """Forget a frame."""
        self._owned.get(self._owner, set()).discard(number)
        entry = self._frames.pop(number, None)
        if entry is not None:
            self.bytes -= entry[1]


class Frames:
    """Frames stored as blobs, and cached when decoded."""

    def __init__(self, blobs: Blobs, cache: FrameCache, complete: Complete | None = None) -> None:
        self.blobs = blobs
        self.cache = cache
        self.complete = complete

    def write(self, frame: pl.DataFrame) -> tuple[int, int]:
        """Write a frame under a new number; return the number and the bytes of its blobs."""
        blobs = encode_blobs(frame)
        number = draw_number(len(blobs))
        for one, blob in zip(list_blobs(number), blobs, strict=True):
            self.blobs.put(one, blob)
        self.cache.put(number, frame)
        return number, sum(map(len, blobs))

    def read(self, number: int) -> pl.DataFrame:
        """Read a stored frame."""
        frame = self.cache.get(number)
        if frame is None:
            frame = decode_blobs(map(self.blobs.get, list_blobs(number)))
            self.cache.put(number, frame)
        return frame if self.complete is None else self.complete(frame)

    def remove(self, number: int) -> None:
        """Remove a frame."""
        for one in list_blobs(number):
            self.blobs.remove(one)
        self.cache.drop(number)
