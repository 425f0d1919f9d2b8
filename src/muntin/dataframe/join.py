"""`join`: joins every kind of input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict, Unpack, overload

from muntin.dataframe.host import Host, choose_host
from muntin.model.axis import Duration
from muntin.model.bounds import Distance
from muntin.model.errors import OptionError
from muntin.model.joins import How, JoinNulls, On, StateLayout
from muntin.model.option_names import suggest_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from muntin.hosts.local.definition import LocalDefinition, LocalJoined
    from muntin.hosts.local.windowed import LocalWindowed
    from muntin.spark.join import Joined
    from muntin.spark.windowed import Windowed, WindowedAggregate

    SparkSide: TypeAlias = Windowed | WindowedAggregate | DataFrame
    LocalSide: TypeAlias = LocalWindowed | LocalDefinition


class JoinOptions(TypedDict, total=False):
    """The options of `join`, for type checkers; `join` documents them."""

    on: Required[On]
    within: Distance | None
    as_of: bool | Duration
    newest: bool
    how: How
    suffix: str
    layout: StateLayout | None
    shards: int | None
    nulls: JoinNulls
    shared_time: bool
    each_change: bool
    host: Host | None


@overload
def join(left: SparkSide, right: SparkSide, **options: Unpack[JoinOptions]) -> Joined: ...


@overload
def join(left: LocalSide, right: LocalSide, **options: Unpack[JoinOptions]) -> LocalJoined: ...


@suggest_options('name the columns that are equal on both sides, on="id"')
def join(
    left: SparkSide | LocalSide,
    right: SparkSide | LocalSide,
    *,
    on: On,
    within: Distance | None = None,
    as_of: bool | Duration = False,
    newest: bool = False,
    how: How = "inner",
    suffix: str = "_right",
    layout: StateLayout | None = None,
    shards: int | None = None,
    nulls: JoinNulls = "reject",
    shared_time: bool = False,
    each_change: bool = False,
    host: Host | None = None,
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
        on: The columns that must be equal: a name, several, or pairs of a left and a right name.
        within: How far partners may be apart: one length in both directions, or two lengths, how
            far the right message may be before the left one and after it. With
            `("-5 seconds", "10 seconds")` it is 5 to 10 seconds after it. 0 is the same time.
            `muntin.rows(3)` counts source offsets since each side's first. Without it partners
            share a window of each side that has windows, or a session of both; or have the same
            time, where `on` compares the times.
        as_of: Whether the partner of a left message is its version: the right side's newest message
            at that time or before. A length (`"1 hour"`) is the largest age of the version. A left
            message is emitted once the right side's watermark has passed it, and isn't corrected
            after that. A right side in Kafka that is read to its end isn't waited for: then the
            greatest time of both sides, less the right side's `lateness=`, must have passed it.
        newest: Whether the partner of a left message is the right side's newest row of its key when
            it arrives, whatever their times. Nothing waits and nothing is late. A right row whose
            columns are all NULL, besides its key, time and offset, deletes the row of its key.
            `.keep("30 days")` on the right side bounds how long a row is kept.
        how: `inner`, `left`, `right`, `full`, `semi` (left messages with a partner,
            once), `anti` (those without); `inner` or `left` with `as_of` and `newest`.
        suffix: The suffix of the right side's columns whose names the left side has, too.
        layout: Whether state is sorted by `time` or by `keys` first; by default the join chooses.
        shards: The number of shards of the keys.
        nulls: The treatment of a message with NULL in a key: `reject`; `unmatched`, which emits it
            as unmatched if the join emits its side's unmatched messages; or `group`, where NULL
            equals NULL, for joins by `within` or by windows.
        shared_time: Whether both sides use one watermark, the later of the two, so that a silent
            side doesn't make the other one wait. Its messages behind that watermark are then late.
        each_change: Whether the pair of two windows is emitted again whenever one of them is
            emitted, with the newest of both, and with `emission` and `revision` like windows. An
            outer join emits unmatched windows at once, and again when a partner arrives. `on` must
            be the windows' keys, `window_start` and `window_end`.
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
    options: Any = {
        "on": on,
        "within": within,
        "as_of": as_of,
        "newest": newest,
        "how": how,
        "suffix": suffix,
        "layout": layout,
        "shards": shards,
        "nulls": nulls,
        "shared_time": shared_time,
        "each_change": each_change,
    }
    hosts = choose_host("left", left, host), choose_host("right", right, host)
    if hosts[0] != hosts[1]:
        problem = f"runs on the {hosts[1]} host, and the left side on the {hosts[0]} host"
        raise OptionError("right", type(right).__name__, problem, "give two inputs of one host")
    if hosts[0] == "spark":
        from muntin.spark.join import begin_spark_join

        return begin_spark_join(left, right, options)
    from muntin.hosts.local.joined import begin_join

    return begin_join(left, right, options)
