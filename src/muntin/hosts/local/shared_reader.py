"""Reads a source once for all inputs of a query that derive from it, as in a self-join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

import polars as pl

from muntin.hosts.local.derived import DerivedReader, DerivedSource
from muntin.sources.source import (
    ForwardingReader,
    Planned,
    Source,
    SourceOffsets,
    SourceReader,
)


def open_readers(sources: Sequence[Source]) -> list[SourceReader]:
    """Connect to sources, once to those that are the same object or derive from it.

    Raises:
        SourceError: When one can't be reached; the connections to the others are closed.
        OptionError: When an option can't work.
    """
    users = Counter(id(_find_origin(source)) for source in sources)
    shared: dict[int, SharedReader] = {}
    readers: list[SourceReader] = []
    with ExitStack() as undo:
        for source in sources:
            readers.append(_open(source, users, shared))
            undo.callback(readers[-1].close)
        undo.pop_all()
    return readers


def _find_origin(source: Source) -> Source:
    return _find_origin(source.source) if isinstance(source, DerivedSource) else source


def _open(
    source: Source, users: Mapping[int, int], shared: dict[int, SharedReader]
) -> SourceReader:
    if isinstance(source, DerivedSource):
        return DerivedReader(_open(source.source, users, shared), source.step)
    if users[id(source)] == 1:
        return source.open()
    if id(source) not in shared:
        shared[id(source)] = SharedReader(source.open(), users[id(source)])
    return shared[id(source)]


class SharedReader(ForwardingReader):
    """Plans and reads ranges of a source for several users, one after the other.

    Users at the same offsets get the same plan. Its range is read when the first of them reads it,
    and held in memory until the last one has.

    Args:
        reader: A connection to the source.
        users: The number of users.
    """

    def __init__(self, reader: SourceReader, users: int) -> None:
        super().__init__(reader)
        self._users = users
        self._start: SourceOffsets | None = None
        self._planned: Planned | None = None
        self._plans_left = 0
        self._range: tuple[SourceOffsets | None, SourceOffsets] | None = None
        self._frames: list[pl.DataFrame] = []
        self._reads_left = 0

    def plan(self, start: SourceOffsets | None, limit: int | None) -> Planned:
        """Choose the range of the next batch, or return that of the user before."""
        if self._planned is None or not self._plans_left or self._start != start:
            self._start, self._planned = start, self._reader.plan(start, limit)
            self._plans_left = self._users
        self._plans_left -= 1
        return self._planned

    def read(self, start: SourceOffsets | None, end: SourceOffsets) -> Iterator[pl.DataFrame]:
        """Read the messages of a range, from memory if another user has read it."""
        if self._range != (start, end):
            frames = []
            for frame in self._reader.read(start, end):
                frames.append(frame)
                yield frame
            self._range, self._frames, self._reads_left = (start, end), frames, self._users
        else:
            yield from self._frames
        self._reads_left -= 1
        if self._reads_left == 0:
            self._range, self._frames = None, []
