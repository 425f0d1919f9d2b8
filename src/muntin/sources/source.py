"""The interface of a source: a stream of messages in columns, read in ranges that can be repeated.

A source keeps no progress. A host asks a reader how far it may read (`SourceReader.plan`), writes
that down, and reads exactly that range (`SourceReader.read`). A batch that is repeated after a
crash therefore has the same rows.

Example:
    A source of one batch of two rows:

    >>> class Pair(Source, SourceReader):
    ...     schema = pl.Schema({"n": pl.Int64()})
    ...
    ...     def open(self):
    ...         return self
    ...
    ...     def plan(self, start, limit):
    ...         first = 0 if start is None else start["row"]
    ...         return Planned({"row": 2}, has_new=first < 2, caught_up=True, finished=True)
    ...
    ...     def read(self, start, end):
    ...         first = 0 if start is None else start["row"]
    ...         yield pl.DataFrame({"n": [10, 20]})[first : end["row"]]
    >>> reader = Pair().open()
    >>> planned = reader.plan(None, None)
    >>> [frame["n"].to_list() for frame in reader.read(None, planned.end)]
    [[10, 20]]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from muntin.engine import columns

SourceOffsets = Mapping[str, Any]
"""The position in a source up to which it was read, as plain JSON.

Equal offsets mean equal positions, so hosts compare them with `==`.
"""

MALFORMED_COLUMN = columns.PAYLOAD
"""The column (binary, NULL for good messages) with the bytes of a message that can't be decoded.

Only the column of this name that a source lists in `malformed` has that meaning.
"""

MALFORMED_DETAIL_COLUMN = columns.PAYLOAD_DETAIL
"""The column (text, NULL for good messages) that says what is wrong with a malformed message."""

MALFORMED_COLUMNS: Mapping[str, pl.DataType] = {
    MALFORMED_COLUMN: pl.Binary(),
    MALFORMED_DETAIL_COLUMN: pl.String(),
}
"""The columns of malformed messages, with their types."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A range of a source that the next batch reads.

    Attributes:
        end: End of the range, which is the start of the next one.
        has_new: Whether the range can have messages.
        caught_up: Whether the range reaches the end that the source had when it was planned.
        finished: Whether no message can ever follow the range, since the source is finite.
    """

    end: SourceOffsets
    has_new: bool
    caught_up: bool = True
    finished: bool = False


class Source(ABC):
    """A stream of messages, in columns.

    A source is a description: cheap to create, without connections.
    """

    @property
    @abstractmethod
    def schema(self) -> pl.Schema:
        """The columns of a message, with their types."""

    @property
    def malformed_column(self) -> str | None:
        """The binary column with the bytes of messages that can't be decoded, if there is one.

        The other columns of such a message are NULL.
        """
        return None

    @property
    def has_partitions(self) -> bool:
        """True if it is read partition by partition.

        Its frames then have the additional column `__muntin_partition` with the name of each
        message's partition, and its readers know the `backlog` of each.
        """
        return False

    @abstractmethod
    def open(self) -> SourceReader:
        """Connect to the source.

        Raises:
            SourceError: When it can't be reached.
            OptionError: When an option can't work.
        """


class SourceReader(ABC):
    """A connection to a source. One thread uses it at a time."""

    @abstractmethod
    def plan(self, start: SourceOffsets | None, limit: int | None) -> Planned:
        """Choose the range of the next batch, and return at once, even if nothing is new.

        Args:
            start: Start of the range, which is the `end` of an earlier plan; `None` for the first
                batch of a query.
            limit: Approximate maximum of messages in the range; `None` for the source's own
                bound.

        Raises:
            SourceError: When the source can't be reached, or no longer has what follows `start`.
        """

    @abstractmethod
    def read(self, start: SourceOffsets | None, end: SourceOffsets) -> Iterator[pl.DataFrame]:
        """Read the messages of a range, in frames of a bounded number of rows.

        A planned range always has the same rows, even in another process. Each frame has exactly
        the columns and types of `Source.schema`. `start` is `None` in the first batch of a query:
        the reader then takes the start from `end`, or begins at the source's first message. So a
        plan with `start=None` must fix where its range begins.

        Raises:
            SourceError: When a part of the range no longer exists.
        """

    def wait(self, start: SourceOffsets | None, timeout: float) -> bool:
        """Block until there may be messages after `start`, at most `timeout` seconds.

        A host calls it when a plan has nothing new.

        Returns:
            Whether the reader can wait. If it can't, the host plans again every few milliseconds.
        """
        return False

    def backlog(self, end: SourceOffsets) -> Mapping[str, bool]:
        """Return whether each partition had more messages than the plan that ended at `end`.

        The result depends on `end` alone, so that a repeated batch has the same one. It is empty
        for a source without partitions.
        """
        return {}

    def lag(self, end: SourceOffsets) -> Mapping[str, int]:
        """Return how many messages each partition had after `end`, as far as they are counted."""
        return {}

    def is_finished(self, end: SourceOffsets) -> bool:
        """Return whether the source is finite, and no message can follow `end`."""
        return False

    def close(self) -> None:
        """Release connections. Closing twice is allowed."""
        return


class ForwardingReader(SourceReader):
    """A reader that forwards each call to another one; subclasses change some of them."""

    def __init__(self, reader: SourceReader) -> None:
        self._reader = reader

    def plan(self, start: SourceOffsets | None, limit: int | None) -> Planned:
        """Choose the range of the next batch."""
        return self._reader.plan(start, limit)

    def read(self, start: SourceOffsets | None, end: SourceOffsets) -> Iterator[pl.DataFrame]:
        """Read the messages of a range."""
        return self._reader.read(start, end)

    def wait(self, start: SourceOffsets | None, timeout: float) -> bool:
        """Wait for messages, if the reader can."""
        return self._reader.wait(start, timeout)

    def backlog(self, end: SourceOffsets) -> Mapping[str, bool]:
        """Return whether each partition has more messages."""
        return self._reader.backlog(end)

    def lag(self, end: SourceOffsets) -> Mapping[str, int]:
        """Return how many messages each partition has after an end."""
        return self._reader.lag(end)

    def is_finished(self, end: SourceOffsets) -> bool:
        """Return whether no message can follow an end."""
        return self._reader.is_finished(end)

    def close(self) -> None:
        """Release the connections."""
        self._reader.close()
