"""Sources of rows instead of random tuples: files, or a topic of Kafka."""

from __future__ import annotations

from muntin.model.errors import OptionError
from muntin.model.pipeline import DeclaredTable

TUPLE_COLUMNS = "uuid string, val bigint, update_ts timestamp"
RANDOM = "random"
_FILES = ("parquet", "json", "csv", "orc")
_HINT = f"give {RANDOM}, {':FOLDER, '.join(_FILES)}:FOLDER, or kafka:HOST:PORT/TOPIC"


def parse_source(text: str) -> DeclaredTable | None:
    """Parse the option ``--source``.

    Args:
        text: ``random``, ``parquet:FOLDER`` (``json:``, ``csv:``, ``orc:``), or
            ``kafka:HOST:PORT/TOPIC``, whose values are JSON. Rows have ``uuid``, ``val`` and
            ``update_ts``.

    Returns:
        The table to read as a stream; ``None`` for random tuples.

    Raises:
        OptionError: When ``text`` isn't one of these.

    Example:
        >>> parse_source("kafka:localhost:9092/timedata").options["topic"]
        'timedata'
    """
    if text == RANDOM:
        return None
    connector, _, location = text.partition(":")
    if connector in _FILES and location:
        return DeclaredTable(location, connector, TUPLE_COLUMNS, options={"path": location})
    servers, _, topic = location.rpartition("/")
    if connector == "kafka" and servers and topic:
        options = {"bootstrap.servers": servers, "topic": topic, "startingOffsets": "earliest"}
        return DeclaredTable(topic, connector, TUPLE_COLUMNS, options=options)
    raise OptionError("source", text, "isn't a source", _HINT)
