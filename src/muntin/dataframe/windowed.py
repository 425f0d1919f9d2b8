"""`windowed`: begins windowed queries over every kind of input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, overload

import polars as pl

from muntin.dataframe.host import Host, choose_host
from muntin.model.declared_options import take_options
from muntin.model.errors import OptionError
from muntin.model.inputs import INPUT_OPTIONS, InputOptionTypes
from muntin.model.option_names import suggest_options
from muntin.model.spec import Nulls

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from muntin.hosts.local.definition import LocalDefinition
    from muntin.hosts.local.windowed import LocalWindowed
    from muntin.hosts.sentence import SentenceOptions
    from muntin.sources.source import Source
    from muntin.spark.join import Joined
    from muntin.spark.windowed import Windowed, WindowedAggregate

    LocalFrame: TypeAlias = (
        pl.DataFrame | pl.LazyFrame | pd.DataFrame | pa.Table | Source | LocalDefinition
    )
    SparkFrame: TypeAlias = DataFrame | Joined | WindowedAggregate
    Expression: TypeAlias = str | pl.Expr | Column


class WindowedOptions(InputOptionTypes, total=False):
    """The options of `windowed`, for type checkers; `windowed` documents them."""

    key: Expression | Sequence[Expression]
    time: Expression | None
    where: Expression | None
    clock: Expression | None
    shards: int | None
    nulls: Nulls
    host: Host | None


@overload
def windowed(frame: SparkFrame, **options: Unpack[WindowedOptions]) -> Windowed: ...


@overload
def windowed(frame: LocalFrame, **options: Unpack[WindowedOptions]) -> LocalWindowed: ...


@suggest_options()
@take_options(INPUT_OPTIONS, InputOptionTypes)
def windowed(
    frame: SparkFrame | LocalFrame,
    *,
    key: Any = (),
    time: Expression | None = None,
    where: Expression | None = None,
    clock: Expression | None = None,
    shards: int | None = None,
    nulls: Nulls = "reject",
    host: Host | None = None,
    **options: Unpack[InputOptionTypes],
) -> Windowed | LocalWindowed:
    """Begin a windowed aggregation over a frame, a stream or a source.

    The input decides which host runs the query. A Spark DataFrame runs on Spark. A Polars, pandas
    or Arrow frame, and a source such as `mt.ticks(100)`, run in this process without Spark. For a
    frame, `.results` is a frame of the same kind; for a source, `.start(…)` runs the query.

    Messages carry all columns of the input, since rejected messages are returned unchanged. So
    select the columns that you need first. Expressions are those of the input: Spark's columns on
    Spark, `pl.Expr` elsewhere. Both accept SQL text.

    Args:
        frame: The input: a frame, a source, or a join or other windows, whose results are read in
            the same query. If a window may be emitted more than once, early or late, give the
            `.full` of such windows. Don't call `withWatermark`: Spark would drop late messages,
            which this query handles with a watermark of its own.
        key: The key columns, by name, as fields of structs (`"user.country"`, which the output
            calls `country`), or as expressions with names of their own. Without a key, windows
            contain all messages, and one shard has them all.
        time: The event time, by the name of its column, as a field of structs (`"event.at"`) or
            as an expression (`F.timestamp_millis("ms")`): a timestamp, a date (its midnight,
            without a zone), or a string, whose message is rejected if it isn't a time. Windows
            that are measured in rows need none. For results of other windows it may be
            `window_time`, the last moment of each window, so that windows which end together with
            a larger one belong to it. Texts without a zone are in the session's zone on Spark, and
            in UTC elsewhere.
        **options: The options of the input, as `INPUT_OPTIONS` declares them.
        where: The condition that a message must meet; other messages are counted as `filtered`.
        clock: The arrival time of a message: a timestamp column, a field of a struct or an
            expression. It replaces the machine's clock for `max_ahead` and for policies on the wall
            clock, so that a replay emits like the live stream.
        shards: The number of shards of the keys; by default one for each core on Spark, and one
            elsewhere. It is part of the checkpoint.
        nulls: Whether a message with NULL in a key is rejected (`reject`), or NULL is a value of
            the key like any other (`group`), as in `GROUP BY`. With an existing checkpoint it may
            change to `group`, but not back to `reject`.
        host: `"spark"` or `"local"`; by default the input decides. An input that the host can't
            read is refused.

    Returns:
        A windowed query to complete: `.tumbling(…)` or another kind, `.early(…)` and `.late(…)`,
        then `.agg(…)` or `.top(…)`.

    Raises:
        OptionError: When an option can't work; the error names it.

    Example:
        >>> from datetime import datetime
        >>> import polars as pl
        >>> import muntin as mt
        >>> flights = pl.DataFrame(
        ...     {"carrier": ["UA", "UA"], "at": [datetime(2013, 1, 1, 5, m) for m in (15, 29)]}
        ... )
        >>> hourly = mt.windowed(flights, key="carrier", time="at").tumbling("1 hour")
        >>> hourly.agg(n=mt.count()).results.select("carrier", "n").rows()
        [('UA', 2)]
    """
    frame, position = join_topic(frame, options["offset"])
    chosen: SentenceOptions = {
        **options,
        "key": key,
        "time": time,
        "offset": position,
        "where": where,
        "clock": clock,
        "shards": shards,
        "nulls": nulls,
    }
    if choose_host("frame", frame, host) == "spark":
        from muntin.spark.windowed import begin_spark_windowed

        return begin_spark_windowed(frame, chosen)
    from muntin.hosts.local.windowed import begin_windowed

    return begin_windowed(frame, chosen)


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
        raise OptionError("offset", offset, "isn't a pair or triple of columns", hint)
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
