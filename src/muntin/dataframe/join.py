"""`join`: joins every kind of input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, overload

from muntin.dataframe.host import Host, choose_host
from muntin.model.declared_options import take_options
from muntin.model.errors import OptionError
from muntin.model.join_options import JOIN_OPTIONS, JoinOptionTypes
from muntin.model.option_names import suggest_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from muntin.hosts.local.definition import LocalDefinition, LocalJoined
    from muntin.hosts.local.windowed import LocalWindowed
    from muntin.spark.join import Joined
    from muntin.spark.windowed import Windowed, WindowedAggregate

    SparkSide: TypeAlias = Windowed | WindowedAggregate | DataFrame
    LocalSide: TypeAlias = LocalWindowed | LocalDefinition


class JoinOptions(JoinOptionTypes, total=False):
    """The options of `join`, for type checkers; `join` documents them."""

    suffix: str
    shards: int | None
    host: Host | None


@overload
def join(left: SparkSide, right: SparkSide, **options: Unpack[JoinOptions]) -> Joined: ...


@overload
def join(left: LocalSide, right: LocalSide, **options: Unpack[JoinOptions]) -> LocalJoined: ...


@suggest_options('name the columns that are equal on both sides, on="id"')
@take_options(JOIN_OPTIONS, JoinOptionTypes)
def join(
    left: SparkSide | LocalSide,
    right: SparkSide | LocalSide,
    *,
    suffix: str = "_right",
    shards: int | None = None,
    host: Host | None = None,
    **options: Unpack[JoinOptionTypes],
) -> Joined | LocalJoined:
    """Join two frames, streams or sources by equal columns and by time.

    Both sides must run on the same host, which their inputs decide as in `windowed`.

    Each pair is emitted once, as soon as its second message arrives. A message waits until the
    other side's watermark excludes further partners. An outer join emits it only then, so that no
    message has both a partner and a null. A side may use `.early(every=…)` and
    `.late(grace=…, every=…)` to join its messages periodically, and `.keep(…)` to bound how long
    they are kept by the side's own watermark.

    Args:
        left: `windowed(frame, time=…)`, with or without windows; a key isn't needed. It may also be
            complete windows or their `.full`, each of which is a message at its `window_end`.
            These, and another join's pairs, are read in the same query, without their `emission`
            and `revision`.
        right: The right side, like the left one; it may be the left side again.
        **options: The options of a join, as `JOIN_OPTIONS` declares them.
        suffix: The suffix of the right side's columns whose names the left side has, too.
        shards: The number of shards of the keys.
        host: `"spark"` or `"local"`; by default the inputs decide.

    Returns:
        The join, with `.results`, `.rejected` and `.start(…)` like windows.

    Raises:
        OptionError: When a column or a type can't work, or a side has no bound; the error names it.

    Example:
        >>> pairs = join(
        ...     windowed(shipments, time="time"),
        ...     windowed(orders, time="time"),
        ...     on="id",
        ...     within=("2 minutes", 0),
        ... )  # doctest: +SKIP
    """
    chosen: Any = {**options, "suffix": suffix, "shards": shards}
    hosts = choose_host("left", left, host), choose_host("right", right, host)
    if hosts[0] != hosts[1]:
        problem = f"runs on the {hosts[1]} host, and the left side on the {hosts[0]} host"
        raise OptionError("right", type(right).__name__, problem, "give two inputs of one host")
    if hosts[0] == "spark":
        from muntin.spark.join import begin_spark_join

        return begin_spark_join(left, right, chosen)
    from muntin.hosts.local.windowed import begin_join

    return begin_join(left, right, chosen)
