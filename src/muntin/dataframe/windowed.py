"""`windowed`: the entrance to windows for every kind of input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, overload

from muntin.dataframe.host import Host, choose_host
from muntin.dataframe.position import join_topic
from muntin.model.axis import Duration
from muntin.model.spec import Nulls

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from muntin.hosts.local.definition import LocalDefinition
    from muntin.hosts.local.windowed import LocalWindowed
    from muntin.sources.source import Source
    from muntin.spark.join import Joined
    from muntin.spark.windowed import Windowed, WindowedAggregate

    LocalFrame: TypeAlias = (
        pl.DataFrame | pl.LazyFrame | pd.DataFrame | pa.Table | Source | LocalDefinition
    )
    SparkFrame: TypeAlias = DataFrame | Joined | WindowedAggregate
    Expression: TypeAlias = str | pl.Expr | Column


class WindowedOptions(TypedDict, total=False):
    """The options of `windowed`, for type checkers; `windowed` says what each means."""

    key: Expression | Sequence[Expression]
    time: Expression | None
    offset: tuple[str, str] | tuple[str, str, str] | None
    lateness: Duration | None
    max_ahead: Duration | None
    idle: Duration | None
    where: Expression | None
    clock: Expression | None
    buckets: int | None
    nulls: Nulls
    host: Host | None


@overload
def windowed(frame: SparkFrame, **options: Unpack[WindowedOptions]) -> Windowed: ...


@overload
def windowed(frame: LocalFrame, **options: Unpack[WindowedOptions]) -> LocalWindowed: ...


def windowed(
    frame: SparkFrame | LocalFrame,
    *,
    key: Any = (),
    time: Expression | None = None,
    offset: tuple[str, str] | tuple[str, str, str] | None = None,
    lateness: Duration | None = None,
    max_ahead: Duration | None = "15 minutes",
    idle: Duration | None = None,
    where: Expression | None = None,
    clock: Expression | None = None,
    buckets: int | None = None,
    nulls: Nulls = "reject",
    host: Host | None = None,
) -> Windowed | LocalWindowed:
    """Begin a windowed aggregation over a frame, a stream or a source.

    The input decides which host runs the query. A DataFrame of Spark's runs on Spark. A Polars,
    pandas or Arrow frame, and a source such as `mt.ticks(100)`, run in this process without Spark;
    `.results` of a frame is a frame of the same kind, and `.start(…)` runs a source.

    All columns of the input travel with its messages, since a rejected message is given back as it
    came: select what you need first. Expressions are those of the input: Spark's columns on Spark,
    `pl.Expr` elsewhere. SQL text is taken by both.

    Args:
        frame: The input: a frame, a source, or a join or other windows, whose results are taken in
            one query with them. Windows that emit a window more than once, early or late, are taken
            by their `.full`. Don't call `withWatermark`: the watermark is kept here, so that late
            messages aren't dropped on the way.
        key: The key columns, by name, as fields of structs (`"user.country"`, which the output
            calls `country`), or as expressions with names of their own. Without any, the windows
            are those of all messages together, and one shard keeps them.
        time: The event time, by the name of its column, as a field of structs (`"event.at"`) or
            as an expression (`F.timestamp_millis("ms")`): a timestamp, a date (its midnight,
            without a zone), or a string to be parsed, where what isn't a time is rejected. Windows
            that are measured in rows need none. Of other windows it may be `window_time`, the
            last moment of each: so windows that end together with a larger one are in it. Texts
            without a zone are of the session's zone on Spark, and UTC elsewhere.
        offset: The columns of a message's partition and of its offset in it, or of its topic, its
            partition and its offset. (Of several topics read by `mt.kafka` the partition has the
            topic in its name.) A message whose offset was taken before changes nothing, also after
            a restart. Windows that are measured in rows lie on the offsets of a partition then, and
            the partition is the first key; without offsets they count a key's messages as they
            arrive.
        lateness: How far the watermark trails the greatest event time; not at all by default, and
            of a join's pairs as far as they may come out of order.
        max_ahead: How far ahead of the wall clock an event time may be. A message further ahead
            is rejected as `future` and doesn't move the watermark. Raise it where times lie
            ahead by design, as those of forecasts do; `None` accepts any time.
        idle: After how long without messages the watermark moves on with the wall clock, so that
            the last windows emit. What comes behind it then is late. Never by default.
        where: Which messages to take; others are counted as `filtered`.
        clock: A timestamp that says when a message arrived: a column, a field of a struct or an
            expression. Policies on the wall clock and
            `max_ahead` go by it in place of the machine's clock, so that a replay emits as the
            live stream did.
        buckets: In how many shards the keys are kept; one a core by default. It is
            part of the checkpoint.
        nulls: Whether a message with NULL in a key is rejected (`reject`), or NULL is a value of
            the key like any other (`group`), as `GROUP BY` has it. It may become `group`
            over a checkpoint, and not `reject` again.

        host: `"spark"` or `"local"`; by default the input decides. An input that the host can't
            read is refused.

    Raises:
        OptionError: Naming what can't work.

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
    frame, position = join_topic(frame, offset)
    options: Any = {
        "key": key,
        "time": time,
        "offset": position,
        "lateness": lateness,
        "max_ahead": max_ahead,
        "idle": idle,
        "where": where,
        "clock": clock,
        "buckets": buckets,
        "nulls": nulls,
    }
    if choose_host("frame", frame, host) == "spark":
        from muntin.spark.windowed import begin_windowed as begin_on_spark

        return begin_on_spark(frame, options)
    from muntin.hosts.local.windowed import begin_windowed

    return begin_windowed(frame, options)
