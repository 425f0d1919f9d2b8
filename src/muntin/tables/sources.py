"""Sources of events in this process: sequences, frames, files, and topics in memory.

A source yields messages by number, starting anywhere, so that a restarted run continues from its
last commit.
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
from muntin.tables.files import UnreadableRow, read_arrow_rows, read_file_rows, read_frame_rows
from muntin.tables.record import Keying, parse_keying, read_field
from muntin.tables.time_values import PointInTime


class TopicMessage(NamedTuple):
    """A message before any check.

    Attributes:
        value: The value; text and bytes are parsed as JSON if the topic has a type.
        key: The partition key.
        time: Seconds, ``datetime`` or ISO 8601; ``None`` if the message has no time.
        has_key_rule: True if the source defines keys, so that a message without one is rejected.
        has_time_rule: True if the source defines times; if not, the wall clock is used.
        read_error: Why the row can't be read, if the source found it malformed.
    """

    value: Any
    key: Any = None
    time: Any = None
    has_key_rule: bool = False
    has_time_rule: bool = False
    read_error: str | None = None

    @classmethod
    def from_values(cls, value: Any, key: Any, time: Any) -> Self:
        """Create a message that was sent on its own; a key and a time are optional."""
        return cls(value, key, time, key is not None, time is not None)


NumberedMessage = tuple[str, int | None, TopicMessage]
"""A topic, a message's number in its source (``None`` if it was sent), and the message."""


@dataclass(frozen=True)
class Source:
    """Data for one topic, created by ``source``.

    Attributes:
        data: A sequence or other iterable of values, a frame, or the path of a file.
        key: The partition key of a message.
        time: The time of a message.
        value: The column or field of the value; ``None`` if the whole row is the value.
    """

    data: Any
    key: Keying | None = None
    time: Keying | None = None
    value: str | None = None

    def messages(self, start: int) -> Iterator[TopicMessage]:
        """Iterate over the messages, starting at number ``start``."""
        for row in read_rows(self.data, start):
            yield self.convert_row(row)

    def convert_row(self, row: Any) -> TopicMessage:
        """Convert a row to a message."""
        read_error = None
        if isinstance(row, UnreadableRow):
            row, read_error = row
        value = row if self.value is None else read_field(row, self.value)
        key, time = _evaluate(self.key, row), _evaluate(self.time, row)
        return TopicMessage(
            value, key, time, self.key is not None, self.time is not None, read_error
        )


def source(data: Any, *, key: Any = None, time: Any = None, value: str | None = None) -> Source:
    """Define how the rows of some data become a topic's messages.

    Args:
        data: In this process: a list or other iterable of values, a Polars, pandas or Arrow frame,
            or the path of a ``.jsonl``, ``.csv`` or ``.parquet`` file. On Spark: a DataFrame.
        key: The partition key: a field, its name, or a function of the row. Without a key all
            messages are in one partition.
        time: The time, as a field, its name or a function; in seconds, as ``datetime`` or ISO 8601.
            Without it, the time is when a message is read.
        value: The field of the value; the whole row by default.

    Returns:
        The messages, for ``feed``, ``run`` and ``on_spark``.

    Raises:
        OptionError: When ``key`` or ``time`` is neither a field nor a function.

    Example:
        >>> clicks = source([{"page": "home", "at": 3.0}], key="page", time="at")
        >>> next(clicks.messages(0)).key
        'home'
    """
    by = None if key is None else parse_keying("key", key)
    return Source(data, by, None if time is None else parse_keying("time", time), value)


def _evaluate(by: Keying | None, row: Any) -> Any:
    """Return a key or a time; ``None`` if the row has none."""
    if by is None:
        return None
    if isinstance(row, str | bytes) and by.field is not None:
        try:
            row = json.loads(row)
        except (ValueError, RecursionError):
            return None
    try:
        return by.get_key(row)
    except Exception:
        # The user's function may fail for a row; that must not stop the stream.
        return None


def read_rows(data: Any, start: int) -> Iterator[Any]:
    """Read the rows of any supported data, starting at number ``start``."""
    if isinstance(data, str | Path):
        return read_file_rows(Path(data), start)
    if isinstance(data, pa.Table | pa.RecordBatch):
        return read_arrow_rows(data.slice(start))
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    elif type(data).__module__.partition(".")[0] == "pandas":
        # Recognised by name, because importing pandas takes long.
        data = from_pandas(data)
    if isinstance(data, pl.DataFrame):
        return read_frame_rows(data.slice(start))
    if isinstance(data, Sequence):
        return (data[number] for number in range(start, len(data)))
    if isinstance(data, Iterable):
        return islice(iter(data), start, None)
    hint = "give a list, a frame, the path of a file, or muntin.memory()"
    if hasattr(data, "topics"):
        hint = "agents read topics on Spark: give muntin.source(topic.stream(spark)) to on_spark()"
    raise OptionError("source", data, "has no rows", hint)


class Memory:
    """Topics in memory, for tests and experiments; created by ``memory``.

    They outlive the app's runs, so that a run can be restarted on the same messages.
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
            key: The partition key; without one the message goes to the first partition.
            timestamp: The message's time; by default, when it is read.

        Returns:
            The message's number in the topic.
        """
        messages = self._topics.setdefault(topic, [])
        messages.append(TopicMessage.from_values(value, key, timestamp))
        return len(messages) - 1

    def names(self) -> list[str]:
        """Return the topics that have messages."""
        return list(self._topics)

    def messages(self, topic: str, start: int = 0) -> list[TopicMessage]:
        """Return the messages of a topic, starting at number ``start``."""
        return self._topics.get(topic, [])[start:]

    def values(self, topic: str) -> list[Any]:
        """Return the values of a topic."""
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
