"""Where events come from in process: sequences, frames, files, and topics in memory.

A source hands out messages by number, from any number on, so that a run that is started again goes
on where the last commit was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import polars as pl
import pyarrow as pa

from muntin.engine.utf8 import from_pandas
from muntin.model.errors import OptionError
from muntin.tables.files import Unread, rows_of_arrow, rows_of_file, rows_of_frame
from muntin.tables.moments import PointInTime
from muntin.tables.record import Keying, keying, read


class TopicMessage(NamedTuple):
    """A message as it comes: nothing is checked yet.

    Attributes:
        value: The value; text and bytes are JSON where the topic has a type.
        key: What it is partitioned by.
        time: Its time: seconds, ``datetime`` or ISO 8601; ``None`` where it has none.
        keyed: Whether its source has keys, so that one without is rejected.
        timed: The same for times; without, the wall clock is taken.
        unread: Why it can't be read, where its source knows: then it is malformed.
    """

    value: Any
    key: Any = None
    time: Any = None
    keyed: bool = False
    timed: bool = False
    unread: str | None = None

    @classmethod
    def sent(cls, value: Any, key: Any, time: Any) -> Self:
        """One that was sent by itself, which has a key and a time where some were given."""
        return cls(value, key, time, key is not None, time is not None)


NumberedMessage = tuple[str, int | None, TopicMessage]
"""A topic, a message's number in its source (``None`` outside of one), and the message."""


@dataclass(frozen=True)
class Source:
    """Data for one topic; made by ``source``.

    Attributes:
        data: A sequence or other iterable of values, a frame, or the path of a file.
        key: What messages are partitioned by.
        time: When they happened.
        value: The column or field that is the value; ``None``: the whole row is.
    """

    data: Any
    key: Keying | None = None
    time: Keying | None = None
    value: str | None = None

    def messages(self, start: int) -> Iterator[TopicMessage]:
        """The messages from a number on."""
        for row in rows(self.data, start):
            yield self.message(row)

    def message(self, row: Any) -> TopicMessage:
        """A row as a message."""
        unread = None
        if isinstance(row, Unread):
            row, unread = row
        value = row if self.value is None else read(row, self.value)
        key, time = _of(self.key, row), _of(self.time, row)
        return TopicMessage(value, key, time, self.key is not None, self.time is not None, unread)


def source(data: Any, *, key: Any = None, time: Any = None, value: str | None = None) -> Source:
    """Say how the rows of some data become a topic's messages.

    Args:
        data: In process: a list or other iterable of values, a Polars, pandas or Arrow frame, or
            the path of a ``.jsonl``, ``.csv`` or ``.parquet`` file. On Spark: a DataFrame.
        key: What messages are partitioned by: a field, its name, or a function of the row. Without
            a key all are in one partition.
        time: When they happened, likewise: seconds, ``datetime`` or ISO 8601. Without it, it is
            when they are read.
        value: The field that holds the value; the whole row where it isn't given.

    Returns:
        The messages, for ``feed``, ``run`` and ``on_spark``.

    Raises:
        OptionError: When ``key`` or ``time`` is neither a field nor a function.

    Example:
        >>> clicks = source([{"page": "home", "at": 3.0}], key="page", time="at")
        >>> next(clicks.messages(0)).key
        'home'
    """
    by = None if key is None else keying("key", key)
    return Source(data, by, None if time is None else keying("time", time), value)


def _of(by: Keying | None, row: Any) -> Any:
    """A key or a time; ``None`` where the row is in no state to be asked."""
    if by is None:
        return None
    if isinstance(row, str | bytes) and by.field is not None:
        try:
            row = json.loads(row)
        except (ValueError, RecursionError):
            return None
    try:
        return by.of(row)
    except Exception:
        # Functions are the user's, and may be surprised by a row; that stops no stream.
        return None


def rows(data: Any, start: int) -> Iterator[Any]:
    """The rows of whatever data, from a number on."""
    if isinstance(data, str | Path):
        return rows_of_file(Path(data), start)
    if isinstance(data, pa.Table | pa.RecordBatch):
        return rows_of_arrow(data.slice(start))
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    elif type(data).__module__.partition(".")[0] == "pandas":
        # Known by name: importing it takes long.
        data = from_pandas(data)
    if isinstance(data, pl.DataFrame):
        return rows_of_frame(data.slice(start))
    if isinstance(data, Sequence):
        return (data[number] for number in range(start, len(data)))
    if isinstance(data, Iterable):
        return islice(iter(data), start, None)
    hint = "give a list, a frame, the path of a file, or muntin.memory()"
    raise OptionError("source", data, "has no rows", hint)


class Memory:
    """Topics in memory, for tests and for trying things out; made by ``memory``.

    They outlive the app's runs, so that a run can be started again on the same messages.
    """

    def __init__(self) -> None:
        self._topics: dict[str, list[TopicMessage]] = {}

    def send(
        self, topic: str, value: Any, *, key: Any = None, timestamp: PointInTime | None = None
    ) -> int:
        """Append a message.

        Args:
            topic: The topic's name.
            value: The value.
            key: What it is partitioned by; without one it goes to the first partition.
            timestamp: When it happened; when it is read, where it isn't given.

        Returns:
            Its number in the topic.
        """
        messages = self._topics.setdefault(topic, [])
        messages.append(TopicMessage.sent(value, key, timestamp))
        return len(messages) - 1

    def names(self) -> list[str]:
        """The topics that have messages."""
        return list(self._topics)

    def messages(self, topic: str, start: int = 0) -> list[TopicMessage]:
        """The messages of a topic, from a number on."""
        return self._topics.get(topic, [])[start:]

    def values(self, topic: str) -> list[Any]:
        """The values of a topic."""
        return [message.value for message in self.messages(topic)]


def memory() -> Memory:
    """Create topics in memory, to which messages are sent one by one.

    Returns:
        The topics. ``app.run`` and ``feed`` read them as they read sources.

    Example:
        >>> topics = memory()
        >>> topics.send("clicks", {"page": "home"}, key="home", timestamp=3.0)
        0
    """
    return Memory()
