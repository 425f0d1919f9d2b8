"""Resolves the columns of a message's position in its source, which may include a topic."""

from __future__ import annotations

from typing import Any

import polars as pl

from muntin.model.errors import OptionError

# The column of the topic and the partition together.
TOPIC_PARTITION = "topic_partition"


def join_topic(frame: Any, offset: Any) -> tuple[Any, tuple[str, str] | None]:
    """Return the input, and the columns of a partition and of an offset in it.

    ``offset`` is ``(partition, offset)`` or ``(topic, partition, offset)``. A topic and its
    partition are combined into a new column of the input, ``topic_partition``.
    """
    if offset is None:
        return frame, None
    if isinstance(offset, str) or len(offset) not in (2, 3):
        hint = "give ('partition', 'offset') or ('topic', 'partition', 'offset')"
        raise OptionError("offset", offset, "is no position", hint)
    if len(offset) == 2:
        return frame, tuple(offset)
    topic, partition, last = offset
    names = [] if isinstance(frame, pl.LazyFrame) else [*getattr(frame, "columns", [])]
    for name in offset:
        if names and name not in names:
            hint = f"give three of {', '.join(map(str, names))}"
            raise OptionError("offset", name, "isn't a column", hint)
    if isinstance(frame, (pl.DataFrame, pl.LazyFrame)):
        joined = pl.format("{}-{}", topic, partition).alias(TOPIC_PARTITION)
        return frame.with_columns(joined), (TOPIC_PARTITION, last)
    if not hasattr(frame, "withColumn"):
        hint = "make one column of topic and partition, and give it with the offset"
        raise OptionError("offset", offset, "has three columns", hint)
    from pyspark.sql import functions as F

    from muntin.spark.sources.kafka_rows import topics_of

    if topics_of(frame) is not None:
        # With several topics, the name of a partition includes its topic.
        return frame, (partition, last)
    parts = F.col(f"`{topic}`"), F.col(f"`{partition}`")
    # A message that lacks a topic or a partition has no position, and is malformed.
    both = F.when(parts[0].isNotNull() & parts[1].isNotNull(), F.concat_ws("-", *parts))
    return frame.withColumn(TOPIC_PARTITION, both), (TOPIC_PARTITION, last)
