"""Where rows come from instead of chance: files, or a topic of Kafka."""

from __future__ import annotations

from muntin.model.errors import OptionError
from muntin.model.pipeline import DeclaredTable

COLUMNS = "uuid string, val bigint, update_ts timestamp"
RANDOM = "random"
_FILES = ("parquet", "json", "csv", "orc")
_HINT = f"give {RANDOM}, {':FOLDER, '.join(_FILES)}:FOLDER, or kafka:HOST:PORT/TOPIC"


def source(text: str) -> DeclaredTable | None:
    """What ``--source`` says.

    Args:
        text: ``random``, ``parquet:FOLDER`` (``json:``, ``csv:``, ``orc:``), or
            ``kafka:HOST:PORT/TOPIC``, whose values are JSON. Rows have ``uuid``, ``val`` and
            ``update_ts``.

    Returns:
        The table to be read as a stream; ``None`` for random tuples.

    Example:
        >>> source("kafka:localhost:9092/timedata").options["topic"]
        'timedata'
    """
    if text == RANDOM:
        return None
    connector, _, place = text.partition(":")
    if connector in _FILES and place:
        return DeclaredTable(place, connector, COLUMNS, options={"path": place})
    servers, _, topic = place.rpartition("/")
    if connector == "kafka" and servers and topic:
        options = {"bootstrap.servers": servers, "topic": topic, "startingOffsets": "earliest"}
        return DeclaredTable(topic, connector, COLUMNS, options=options)
    raise OptionError("source", text, "isn't a source", _HINT)
