"""The sentence that users write: DataFrame in, DataFrame out.

``windowed(frame, key=…, time=…).hopping(…).early(…).late(…).keep(…).agg(…)`` and then ``.results``,
``.rejected`` or ``.start(…)``. Each step returns a new value; nothing runs before the end, and
whatever can't work is refused before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame

from muntin.explain.size import Rates
from muntin.model import cumulating, days, sessions, sliding
from muntin.model import windows as model
from muntin.model.aggregates import Aggregate
from muntin.model.axis import Axis, Duration, Length, instant, measure, micros
from muntin.model.errors import OptionError
from muntin.model.kinds import Kind
from muntin.model.policies import Firing, policy
from muntin.model.sessions import Closed
from muntin.model.spec import WindowSpec
from muntin.model.windows import along
from muntin.spark.explain import explain
from muntin.spark.inputs import Input
from muntin.spark.plan import REJECTED, RESULTS, Plan, Request, build
from muntin.spark.session import require

if TYPE_CHECKING:
    from muntin.spark.query import WindowedQuery
    from muntin.spark.sinks import SinkLike

Key = Column | str | Sequence[Column | str]
Origin = str | int | None


@dataclass(frozen=True)
class Windowed:
    """A DataFrame with a key, an event time, and (soon) windows; made by ``windowed``."""

    _frame: DataFrame
    _keys: tuple[Column | str, ...]
    _time: str | None
    _lateness: int
    _max_ahead: int | None
    _where: Column | str | None
    _clock: str | None
    _buckets: int | None
    _offset: tuple[str, str] | None = None
    _windows: Kind | None = None
    _firing: Firing = Firing()
    # On which axis these are measured is known when the windows are.
    _grace: Length = "0 seconds"
    _kept: Length | None = None

    def tumbling(self, size: Length, *, origin: Origin = None, zone: str | None = None) -> Windowed:
        """Windows of one size, one after the other.

        Args:
            size: Length of a window.
            origin: A moment (or a row's number) at which some window starts; the epoch where it
                isn't given.
            zone: A time zone, for windows of whole calendar days in it (23 to 25 hours long).
        """
        start = _origin(origin)
        if zone is not None:
            return replace(self, _windows=days.days(size, zone, origin=start))
        return replace(self, _windows=model.tumbling(size, origin=start))

    def hopping(
        self,
        size: Length,
        slide: Length,
        *,
        origin: Origin = None,
        zone: str | None = None,
    ) -> Windowed:
        """Overlapping windows of one size that start every ``slide``.

        The slide needn't divide the size. A message is stored once, however many windows hold it.

        Args:
            size: Length of a window.
            slide: Distance between two starts, at most the size.
            origin: A moment (or a row's number) at which some window starts; the epoch where it
                isn't given.
            zone: A time zone, for windows of whole calendar days in it.
        """
        start = _origin(origin)
        if zone is not None:
            return replace(self, _windows=days.days(size, zone, slide=slide, origin=start))
        return replace(self, _windows=model.hopping(size, slide, origin=start))

    def cumulating(self, size: Length, step: Length, *, origin: Origin = None) -> Windowed:
        """Windows that start every ``size`` and tell the result so far at each ``step``.

        Args:
            size: Length of the longest window.
            step: Distance between two ends; it divides the size.
            origin: A moment (or a row's number) at which some window starts; the epoch where it
                isn't given.
        """
        return replace(self, _windows=cumulating.cumulating(size, step, origin=_origin(origin)))

    def sliding(self, size: Length) -> Windowed:
        """Windows that move with the messages, one for each distinct set within ``size``.

        Args:
            size: How far apart the first and the last place of a window are. Both belong to it,
                and ``window_end`` is the last place.
        """
        return replace(self, _windows=sliding.sliding(size))

    def session(self, gap: Length, *, closed: Closed = "both") -> Windowed:
        """Windows that messages open and silence ends.

        A session that grows into another is taken back (``emission`` is ``retract``, the
        aggregates are null) and told anew. ``window_end`` is the last message plus the gap.

        Args:
            gap: The silence that ends a session.
            closed: Whether messages exactly a gap apart share a session: ``both`` as Kafka
                Streams and Spark have it, ``left`` as KIP-94 words it.
        """
        return replace(self, _windows=sessions.session(gap, closed=closed))

    def early(
        self, *, each: bool = False, rows: int | None = None, every: Duration | None = None
    ) -> Windowed:
        """Let current windows speak before they are full (``emission`` is ``early``).

        Args:
            each: After each batch that changed the window.
            rows: After so many new messages in the window.
            every: When the wall clock passes a multiple of this, also without input.
        """
        firing = replace(self._firing, early=policy("early", each, rows, every))
        return replace(self, _firing=firing)

    def late(
        self,
        *,
        grace: Length,
        each: bool = False,
        rows: int | None = None,
        every: Duration | None = None,
    ) -> Windowed:
        """Take late messages for a while after a window's end, and speak again for them.

        Args:
            grace: How long after its end a window takes messages; ``rows(N)`` for windows that are
                measured in rows.
            each: Speak after each batch that changed the window.
            rows: Speak after so many late messages in the window.
            every: Speak when the wall clock passes a multiple of this; 10 seconds by default.

        A window that closes with something untold speaks once more.
        """
        measure("grace", grace, zero=True)
        chosen = self._firing.late
        if each or rows is not None or every is not None:
            chosen = policy("late", each, rows, every)
        return replace(self, _firing=replace(self._firing, late=chosen), _grace=grace)

    def keep(self, retention: Length, *, rows: int | None = None) -> Windowed:
        """Keep a window's state for some time after its end; by default as long as the grace.

        Args:
            retention: How long after its end a window is kept; ``rows(N)`` for windows that are
                measured in rows. Not less than the grace.
            rows: How many messages may be kept in windows that take no more. Each shard keeps its
                part of them. The oldest go first, and those of one stretch of time together. What
                windows say doesn't depend on it.

        Raises:
            OptionError: When there may be less than one row.
        """
        measure("keep", retention, zero=True)
        if rows is not None and rows < 1:
            raise OptionError("rows", rows, "keeps nothing", "give 1 or more, or leave it away")
        return replace(self, _firing=replace(self._firing, rows=rows), _kept=retention)

    def deltas(self) -> Windowed:
        """Let each firing tell only what is new since the window's last one."""
        return replace(self, _firing=replace(self._firing, accumulate=False))

    def agg(self, **aggregates: Aggregate) -> WindowedAggregate:
        """Say what the windows compute; output name = aggregate.

        Raises:
            OptionError: Naming what can't work: a column, a type, a size.
            SettingError: When the session lacks a setting that state needs.
        """
        spec = self.spec(**aggregates)
        require(self._frame.sparkSession)
        return WindowedAggregate(
            build(Request(self.input, self._all_keys(spec), spec, self._buckets))
        )

    def spec(self, **aggregates: Aggregate) -> WindowSpec:
        """The query in one value, before its columns are looked for in the frame.

        Keys that are expressions aren't named yet, and so aren't in it.

        Raises:
            OptionError: Naming what can't work: a size, a policy, a name.
        """
        if self._windows is None:
            raise OptionError(
                "agg", ", ".join(aggregates), "comes before the windows", "call .tumbling() first"
            )
        if not aggregates:
            raise OptionError("agg", None, "computes nothing", "write .agg(n=muntin.count())")
        bare = WindowSpec(
            keys=(),
            time=self._time,
            windows=self._windows,
            aggregates=aggregates,
            firing=self.firing_on(self._windows.axis),
            lateness=self._lateness,
            max_ahead=self._max_ahead,
            offset=self._offset,
        )
        return replace(bare, keys=tuple(k for k in self._all_keys(bare) if isinstance(k, str)))

    def _all_keys(self, spec: WindowSpec) -> tuple[Column | str, ...]:
        offset = self._offset if spec.axis == "rows" else None
        if offset is None or offset[0] in self._keys[:1]:
            return self._keys
        # Offsets count within their partition.
        return (offset[0], *self._keys)

    def firing_on(self, axis: Axis) -> Firing:
        """The policies, with all lengths measured on an axis.

        Raises:
            OptionError: When the grace or the retention isn't measured on it.
        """
        grace = along("grace", self._grace, axis, zero=True)
        kept = grace if self._kept is None else along("keep", self._kept, axis, zero=True)
        return replace(self._firing, grace=grace, retention=kept)

    @property
    def input(self) -> Input:
        """What is read."""
        return Input(
            self._frame, self._time, self._where, self._clock, self._max_ahead, self._offset
        )


class WindowedAggregate:
    """A finished windowed aggregation over a streaming or batch DataFrame."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @cached_property
    def results(self) -> DataFrame:
        """Every firing as a row.

        Columns: the keys, ``window_start``, ``window_end``, the aggregates, ``emission``
        (``early``, ``full``, ``late`` or, for sessions, ``retract``) and ``revision`` (0, 1, 2, …
        for each key and window).
        ``(keys, window_start, window_end)`` identifies a window and the greatest revision is its
        newest state, so that a sink which upserts by it may see a row twice without harm.
        A batch DataFrame gives one ``full`` row a window.
        """
        return self.plan.unpacked(RESULTS)

    @cached_property
    def rejected(self) -> DataFrame:
        """Every message that no window took, as it came, with ``reason`` and ``watermark``.

        Reasons: ``late``, ``future`` (beyond ``max_ahead``), ``null_key``, ``null_time``,
        ``malformed`` (a time that can't be parsed) and ``overflow`` (not a message: the key and
        start of a window whose integer sum left 64 bits).
        """
        return self.plan.unpacked(REJECTED)

    def start(
        self,
        *,
        checkpoint: str,
        results: SinkLike | None = None,
        rejected: SinkLike | None = None,
        name: str | None = None,
        every: Duration | None = None,
        available_now: bool = False,
    ) -> WindowedQuery:
        """Start one streaming query that writes results and rejected messages.

        Each batch reaches the sinks at least once, and a repeated batch carries the same rows; the
        sinks of muntin make that exactly once.

        Args:
            checkpoint: Folder of the query's progress and state; the same after a restart.
            results: A sink (``to_parquet``, ``to_duckdb``) or a function of a DataFrame and the
                batch number, as in ``foreachBatch``.
            rejected: The same for rejected messages.
            name: The query's name.
            every: A batch at most this often; as fast as possible where it isn't given.
            available_now: Read what is there now, then end.

        Raises:
            OptionError: When the frame is a batch frame.
        """
        from muntin.spark.query import start

        return start(self.plan, checkpoint, results, rejected, name, every, available_now)

    def explain(self, *, rate: float | None = None, keys: int = 1000) -> str:
        """The windows on a ruler, the policies, the state, and what to be careful of, in words.

        Args:
            rate: How many messages come in a second; with it the size of the state is estimated.
            keys: How many keys send within a window.
        """
        return explain(self.plan, None if rate is None else Rates(rate, keys))


def windowed(
    frame: DataFrame,
    *,
    key: Key = (),
    time: str | None = None,
    offset: tuple[str, str] | None = None,
    lateness: Duration = "0 seconds",
    max_ahead: Duration | None = "1 day",
    where: Column | str | None = None,
    clock: str | None = None,
    buckets: int | None = None,
) -> Windowed:
    """Begin a windowed aggregation over a streaming or batch DataFrame.

    All columns of the frame travel to Python, since a rejected message is given back as it came:
    select what you need first.

    Args:
        frame: The input. Don't call ``withWatermark``: the watermark is kept here, so that late
            messages aren't dropped on the way.
        key: The key columns, by name or as expressions. Without any, the windows are those of all
            messages together, and one shard keeps them.
        time: The event-time column: a timestamp, or a string to be parsed. Windows that are
            measured in rows need none.
        offset: The columns of a message's partition and of its offset in it. A message whose
            offset was taken before changes nothing, also after a restart. Windows that are
            measured in rows lie on the offsets of a partition then, and the partition is the
            first key; without offsets they count a key's messages as they arrive.
        lateness: How far the watermark trails the greatest event time.
        max_ahead: How far ahead of the wall clock an event time may be; what is further is
            rejected and doesn't move the watermark. ``None`` takes anything.
        where: Which messages to take; others are counted as ``filtered``.
        clock: A timestamp column that says when a message arrived. Policies on the wall clock and
            ``max_ahead`` go by it in place of the machine's clock, so that a replay speaks as the
            live stream did.
        buckets: In how many shards the keys are kept; one a shuffle partition by default. It is
            part of the checkpoint.

    Example:
        >>> hourly = windowed(flights, key="carrier", time="at")  # doctest: +SKIP
    """
    keys = (key,) if isinstance(key, Column | str) else tuple(key)
    ahead = None if max_ahead is None else micros("max_ahead", max_ahead)
    if buckets is not None and buckets < 1:
        raise OptionError("buckets", buckets, "is less than one", "give 1 or more")
    late = micros("lateness", lateness)
    return Windowed(frame, keys, time, late, ahead, where, clock, buckets, offset)


def _origin(origin: Origin) -> int:
    if origin is None or isinstance(origin, int):
        return origin or 0
    return instant("origin", origin)
