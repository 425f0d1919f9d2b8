"""`join`: the entrance to joins for every kind of input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict, Unpack, overload

from muntin.dataframe.host import Host, choose_host
from muntin.model.axis import Duration, Length
from muntin.model.errors import OptionError
from muntin.model.joins import How, JoinNulls, On, StateLayout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from muntin.hosts.local.definition import LocalDefinition, LocalJoined
    from muntin.hosts.local.windowed import LocalWindowed
    from muntin.spark.join import Joined
    from muntin.spark.windowed import Windowed, WindowedAggregate

    SparkSide: TypeAlias = Windowed | WindowedAggregate | DataFrame
    LocalSide: TypeAlias = LocalWindowed | LocalDefinition


class JoinOptions(TypedDict, total=False):
    """The options of `join`, for type checkers; `join` says what each means."""

    on: Required[On]
    within: Length | Sequence[Length | int] | None
    as_of: bool | Duration
    how: How
    suffix: str
    layout: StateLayout | None
    buckets: int | None
    nulls: JoinNulls
    shared_time: bool
    each_change: bool
    host: Host | None


@overload
def join(left: SparkSide, right: SparkSide, **options: Unpack[JoinOptions]) -> Joined: ...


@overload
def join(left: LocalSide, right: LocalSide, **options: Unpack[JoinOptions]) -> LocalJoined: ...


def join(
    left: SparkSide | LocalSide,
    right: SparkSide | LocalSide,
    *,
    on: On,
    within: Length | Sequence[Length | int] | None = None,
    as_of: bool | Duration = False,
    how: How = "inner",
    suffix: str = "_right",
    layout: StateLayout | None = None,
    buckets: int | None = None,
    nulls: JoinNulls = "reject",
    shared_time: bool = False,
    each_change: bool = False,
    host: Host | None = None,
) -> Joined | LocalJoined:
    """Join two frames, streams or sources by equal columns and by time.

    Both sides run on one host; see `windowed`.

    Each pair comes out once, as soon as its second message is there. A message waits as long as the
    other side's watermark leaves room for a partner; an outer join emits it then, so that no
    message has both a partner and a null. A side may say `.early(every=…)` and
    `.late(grace=…, every=…)` to let its messages in periodically, and `.keep(…)` to bound how
    long they are kept by their own clock.

    Args:
        left: `windowed(frame, time=…)`, with or without windows; a key isn't needed. Other
            windows, or their `.full`, stand for themselves: each is a message at its
            `window_end`. These, and another join's pairs, are taken in one query with the join,
            without their `emission` and `revision`.
        right: The same; also the left side again.
        on: The columns that must be equal: a name, several, or pairs of a left and a right name.
        within: How far partners may lie apart: one length either way, or two: how far the right
            one may lie before the left one and after it; `("-5 seconds", "10 seconds")` is from
            5 to 10 seconds after it. `muntin.rows(3)` counts source offsets since each side's
            first. Without it partners share a window of each side that has
            windows, or a session of both; or have the same time, where `on` compares the times.
        as_of: Whether the partner of a left message is the right side's newest one of its time or
            before, its version; or how old that may be at most (`"1 hour"`). A left message is
            emitted once the right side's watermark has passed it, and isn't corrected after that.
        how: `inner`, `left`, `right`, `full`, `semi` (left messages with a partner,
            once), `anti` (those without); `inner` or `left` with `as_of`.
        suffix: What is put behind the right side's column names that the left has too.
        layout: Whether state is sorted by `time` or by `keys` first; else it is chosen.
        buckets: In how many shards the keys are kept.
        nulls: What becomes of a message with NULL in a key, which has no partner: `reject`, or
            `unmatched`: it is emitted as one on the sides of which the join emits those.
        shared_time: Whether both sides go by one watermark, the later one of theirs, so that a side
            which is silent keeps nothing of the other waiting. What it then sends behind that
            watermark is late.
        each_change: Whether the pair of two windows is given again whenever one of them is emitted:
            the newest of both, with `emission` and `revision` as windows have them. Of outer
            joins what is unmatched is given at once, and again when a partner comes. `on` are
            the windows' keys, `window_start` and `window_end`.
        host: `"spark"` or `"local"`; by default the inputs decide.

    Raises:
        OptionError: Naming what can't work: a column, a type, a side without bound.

    Example:
        >>> pairs = join(
        ...     windowed(shipments, time="time"),
        ...     windowed(orders, time="time"),
        ...     on="id",
        ...     within=("2 minutes", 0),
        ... )  # doctest: +SKIP
    """
    options: Any = {
        "on": on,
        "within": within,
        "as_of": as_of,
        "how": how,
        "suffix": suffix,
        "layout": layout,
        "buckets": buckets,
        "nulls": nulls,
        "shared_time": shared_time,
        "each_change": each_change,
    }
    hosts = choose_host("left", left, host), choose_host("right", right, host)
    if hosts[0] != hosts[1]:
        problem = f"runs on the {hosts[1]} host, and the left side on the {hosts[0]} host"
        raise OptionError("right", type(right).__name__, problem, "give two inputs of one host")
    if hosts[0] == "spark":
        from muntin.spark.join import begin_join as begin_on_spark

        return begin_on_spark(left, right, options)
    from muntin.hosts.local.joined import begin_join

    return begin_join(left, right, options)
