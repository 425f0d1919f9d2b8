"""The fluent builder of queries, as far as all front ends share it.

``windowed(…).hopping(…).early(…).late(…).keep(…).agg(…)``: each step returns a new value, and
refuses what can't work at once. A front end adds the first step (with a DataFrame on Spark, without
input for a standalone operator) and defines what ``agg`` returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from muntin.model.aggregate_hints import check_aggregates, describe_incomplete
from muntin.model.aggregates import Aggregate
from muntin.model.attribute_hints import WithoutRows
from muntin.model.axis import Axis, Duration, Length, Origin, parse_length
from muntin.model.errors import OptionError
from muntin.model.fill import FillWord, fill_of
from muntin.model.grouping_sets import Sets, number_sets, read_sets
from muntin.model.inputs import InputOptions
from muntin.model.joins import Side, set_default_policies
from muntin.model.kinds import MOST_OVERLAPPING, Kind, cumulating_in, of_size, require_one_axis
from muntin.model.option_names import suggest_method_options
from muntin.model.option_types import check_boolean, check_count, check_name
from muntin.model.policies import Firing, Never, Policy, Since, Then, limit_waiting, policy
from muntin.model.sessions import Closed, make_sessions
from muntin.model.sliding import ClosedSides, rolling, sliding
from muntin.model.spec import Nulls, WindowSpec, check_effects, check_nulls, list_result_keys
from muntin.model.trailing import trailing
from muntin.model.windows import along


@suggest_method_options
@dataclass(frozen=True, kw_only=True, repr=False)
class Sentence(WithoutRows):
    """A query under construction, which starts with ``windowed``."""

    _kind_of_words = "windows"

    _input_options: InputOptions
    _nulls: Nulls = "reject"
    _sets: Sets | None = None
    _windows: Kind | None = None
    _firing: Firing = Firing()
    # The axis of these lengths isn't known before the windows are.
    _grace: Length = "0 seconds"
    _kept: Length | None = None
    # The steps so far: a second one of a kind is refused, since it would replace the first.
    _given: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_name("time", self._input_options.time)
        check_nulls(self._nulls)
        for name in self._input_options.offset or ():
            check_name("offset", name)

    def __repr__(self) -> str:
        return describe_incomplete(self._windows, self._input_options.time)

    def sets(self, *sets: str | Sequence[str]) -> Self:
        """Group by several sets of key columns at once, as ``GROUPING SETS`` in SQL.

        Results have an additional key, ``grouping_id``, which identifies the set of a row: it has a
        bit for each key column, 1 if the column isn't in the set. Columns that aren't in the set
        are NULL. A message counts once, although it is in a window of each set.

        Args:
            *sets: Lists of key columns, ``sets(["region", "product"], ["region"], [])``; or
                ``"rollup"`` for all key columns, then one less from the right each time; or
                ``"cube"`` for every subset.
        """
        return self._set_once("sets", sets, _sets=read_sets(sets))

    def tumbling(
        self,
        size: Length,
        *,
        origin: Origin = None,
        zone: str | None = None,
        zone_column: str | None = None,
    ) -> Self:
        """Use consecutive windows of one size.

        Args:
            size: Length of a window; a size in months, quarters or years gives calendar months.
            origin: A point in time (or a row's number) at which some window starts. Default: the
                epoch. With a zone, windows start at the local time of the origin, and a plain date
                is a day of the zone. Months start with that day of the month, or with their last
                day if they don't have it.
            zone: A time zone, for windows of its calendar days (23 to 25 hours long), of parts of
                them, or of its months. Default: UTC for months.
            zone_column: The column with each message's time zone, in place of one zone. It is a key
                column, the last one unless ``key`` names it. An unknown zone is ``malformed``, a
                NULL one ``null_key``. A window ends and closes at the instant of its own zone. The
                origin is then a date or a local time, of each zone.
        """
        return self._set_windows(of_size(size, zone=zone, zone_column=zone_column, origin=origin))

    def hopping(
        self,
        size: Length,
        slide: Length,
        *,
        origin: Origin = None,
        zone: str | None = None,
        zone_column: str | None = None,
        overlap: int = MOST_OVERLAPPING,
    ) -> Self:
        """Use overlapping windows of one size that start every ``slide``.

        Args:
            size: Length of a window.
            slide: Distance between two starts, at most the size; it needn't divide the size.
            origin: Start of some window, as in ``tumbling``.
            zone: A time zone, for windows of its calendar days, of parts of them, or of its months.
            zone_column: The column with each message's time zone; see ``tumbling``.
            overlap: Greatest number of windows that a message may be in; more are refused as a
                mistake.
        """
        windows = of_size(
            size, slide, zone=zone, zone_column=zone_column, origin=origin, overlap=overlap
        )
        return self._set_windows(windows)

    def cumulating(
        self,
        size: Length,
        step: Length,
        *,
        origin: Origin = None,
        zone: str | None = None,
        zone_column: str | None = None,
        overlap: int = MOST_OVERLAPPING,
    ) -> Self:
        """Use windows that start every ``size`` and emit the result so far at each ``step``.

        Args:
            size: Length of the longest window.
            step: Distance between two ends; it divides the size.
            origin: Start of some window, as in ``tumbling``.
            zone: A time zone, for windows of its calendar days; steps are parts of them.
            zone_column: The column with each message's time zone; see ``tumbling``.
            overlap: Greatest number of windows that a message may be in; more are refused as a
                mistake.
        """
        windows = cumulating_in(
            size, step, zone=zone, zone_column=zone_column, origin=origin, overlap=overlap
        )
        return self._set_windows(windows)

    def sliding(self, size: Length) -> Self:
        """Use windows that move with the messages, one for each distinct set within ``size``.

        For one row per key that is kept up to date as of now, see ``trailing``.

        Args:
            size: Distance of the first and the last position of a window. Both belong to it,
                and ``window_end`` is the last position.
        """
        return self._set_windows(sliding(size))

    def rolling(self, size: Length, *, closed: ClosedSides = "right") -> Self:
        """Emit a row for each message, with aggregates over the messages of its key before it.

        The rows have all columns of the messages and the aggregates. A row is emitted when the
        watermark has passed its message, or at once with ``early(each=True)``; with a size in rows
        it is always emitted at once. Aggregates may look back by different lengths:
        ``.rolling("1 day").agg(day=sum("v"), hour=sum("v").over("1 hour"))``. Messages of one key
        and time have the same aggregates, and a ``row_number``. Standalone operators emit one row
        for each key and time, without the columns of messages. For one row per key that is kept up
        to date as of now, see ``trailing``.

        Args:
            size: How far a row looks back: a duration, or a number of messages, ``rows(10)``.
            closed: The ends that belong to a window, as in pandas and Polars: ``"right"`` includes
                the message itself but not one that is ``size`` older, ``"left"`` the opposite,
                ``"both"`` (as SQL's ``RANGE``) and ``"neither"``.

        Example:
            >>> from muntin.standalone import windowed
            >>> from muntin import count
            >>> rolled = windowed(key="k", time="at").rolling("5 minutes").agg(n=count())
            >>> str(rolled.windows)
            'rolling 5 minutes, closed right'
        """
        return self._set_windows(rolling(size, closed))

    def trailing(self, *look_backs: Duration, every: Duration, origin: Origin = None) -> Self:
        """Keep aggregates over the last hour, the last day and so on up to date, as of now.

        At each multiple of ``every`` that the watermark passes, a key gets a row for each look-back
        that other messages lie in than at the multiple before: new ones came, or old ones fell out.
        A key without changes costs nothing. When its last message has fallen out, a last row with
        the ``emission`` ``retract`` deletes it from tables.

        The results have a further key, ``look_back``, with the length in words. Tables keep the
        newest row of each key and look-back; ``window_end`` is the time as of which it holds. A
        message counts if its time is at or after ``window_start`` and before ``window_end``. It is
        stored once, however many look-backs contain it. A late message counts from the next
        multiple on, unless it is older than the longest look-back.

        Args:
            *look_backs: The lengths, each a multiple of ``every``.
            every: The distance between the times at which rows are emitted.
            origin: One of these times. Default: the epoch.

        Example:
            >>> from muntin.standalone import windowed
            >>> from muntin import count
            >>> trail = windowed(key="k", time="at").trailing("1 hour", "1 day", every="1 minute")
            >>> str(trail._windows)
            'trailing 1 hour, 1 day every 1 minute'
        """
        return self._set_windows(trailing(look_backs, every, origin=origin))

    def session(
        self,
        gap: Length | None = None,
        *,
        closed: Closed = "both",
        by: Any = None,
        longest: Duration | None = None,
        start: Any = None,
        end: Any = None,
        same: Any = None,
    ) -> Self:
        """Use session windows, which a message opens and a gap without messages ends.

        A session whose bounds change after it was emitted is retracted (``emission`` is
        ``retract``, the aggregates are null) and emitted again. ``window_end`` is the last message
        plus the gap, or where the session is cut before.

        The last four arguments cut sessions, alone or together. They need ``gap``, and no join.
        The messages of open sessions are kept by time then, as a late one may move the cuts.
        Conditions are SQL text, such as ``"kind = 'logout'"``, or expressions of the input, and not
        for standalone operators. Messages of one key and time always share a session.

        Args:
            gap: The length without messages that ends a session.
            closed: ``both`` if messages exactly a gap apart share a session, as in Kafka Streams
                and Spark; ``left`` if they don't, as in the text of KIP-94.
            by: Instead of ``gap``, the column of each message's own gap. On Spark it may be an
                expression, and has intervals or text such as ``5 minutes``; standalone it has
                microseconds. A session lasts until the last of its messages' gaps has passed. A gap
                that is NULL, not above zero or longer than a hundred years makes its message
                ``malformed``.
            longest: The longest duration of a session. It ends so long after its first message,
                and the next message begins another session.
            start: The condition of messages that begin a session. Without ``end`` each of them
                begins another session; with ``end``, those inside a session don't. A message that
                no session has is rejected as ``outside`` once the watermark, less the grace, has
                passed it; the state keeps whole messages until then.
            end: The condition of messages that end their session. Such a message is the last of
                its session, ``window_end`` is its time, and the session is full as soon as the
                watermark passes it.
            same: The column, or an expression, that keeps its value within a session. The session
                ends at the time of the first message with another value; NULL is a value.
        """
        cuts = {"longest": longest, "start": start, "end": end, "same": same}
        return self._set_windows(make_sessions(gap, closed=closed, by=by, **cuts))

    def early(
        self,
        *,
        each: bool = False,
        rows: int | None = None,
        every: Duration | None = None,
        at_least: int | None = None,
        after: Duration | None = None,
        since: Since | None = None,
        when: str | None = None,
        then: Then | None = None,
        over: int | None = None,
        stop: bool = False,
    ) -> Self:
        """Let current windows emit before they are full (``emission`` is ``early``).

        With ``rows`` beside ``every`` or ``after`` a window emits by whichever comes first.

        Args:
            each: Emit after each batch that changed the window.
            rows: Emit after this number of new messages in the window.
            every: Emit when the wall clock passes a multiple of this, also without input.
            at_least: With ``every``, the least number of new messages; windows with fewer wait for
                the next time.
            after: Emit when this wall-clock time has passed since a message that the window hasn't
                emitted, also without input. A window emits up to a tenth of it later.
            since: With ``after``, the message to measure from: ``"first"``, the default, or
                ``"last"``, so that a window emits when it gets no messages for this time.
            when: Emit after each batch that changed the window, if this condition is true: a
                comparison of aggregates and keys with numbers and texts,
                ``"worst > 100 AND NOT region = 'north'"``.
            then: The policy of a window's early emissions after its first one, in the same words:
                ``.early(rows=1, then={"every": "1 minute"})``; ``"never"`` emits once.
            over: The greatest number of windows that have changed and wait to emit. Beyond it, the
                oldest emit at the end of the batch: by their ends, then by key. The number is
                divided equally among the shards, rounded up, so the same batch emits the same
                when it is read again. For tumbling, hopping, cumulating and calendar windows.
            stop: With ``over``, stop the query with an error instead, before the batch is stored.
        """
        limit = limit_waiting(over, stop)
        words = (rows, every, at_least, when, then, after, since)
        alone = limit is not None and not each and all(word is None for word in words)
        chosen: Policy = Never() if alone else policy("early", each, *words)
        firing = replace(self._firing, early=chosen, over=limit)
        return self._set_once("early", chosen, _firing=firing)

    def full(self, *, repeat: bool) -> Self:
        """Set whether a window emits in full although nothing is new since it emitted early.

        Args:
            repeat: With ``True``, the default, each window emits in full once, so that a reader
                knows that it is complete. With ``False`` it emits in full only if something is new
                or it hasn't emitted yet; this needs ``early()``.
        """
        check_boolean("repeat", repeat)
        return self._set_once("full", repeat, _firing=replace(self._firing, repeat=repeat))

    def fill(self, value: FillWord | None = None, /, *, up_to: Duration, **values: Any) -> Self:
        """Let windows without messages emit, once for each key that had messages.

        A key is filled from its first window with a message on. An empty window emits in full as
        others do, or ``late`` where a late message is the first of its key; a late message in it
        gives it a later revision. At the end of a finite input, keys are filled up to the greatest
        time.

        With ``"previous"``, a window that emits late corrects the filled windows behind it, in the
        same batch. With ``"linear"`` for any aggregate, a window is filled when the next one with
        messages has closed, and isn't corrected any more. If there is none within ``up_to``, the
        value is null.

        Args:
            value: The values of an empty window: with ``"zero"`` counts and sums are 0, with
                ``"null"``, the default, only counts are. All other aggregates are null, as they
                have no value without messages. With ``"previous"`` all have those of the key's
                last window with messages, and with ``"linear"`` those on the line to the next one,
                by the ends of windows. Whole numbers and decimals are rounded to their type.
            up_to: How long a key is filled after the end of its last window with a message. The
                state keeps one row for each key that is filled.
            **values: One of these words, or a constant, for aggregates by their names:
                ``fill(n=0, mean="previous", up_to=…)``. Text that is one of the words, or is in
                quotes itself, needs quotes: ``"'previous'"``.

        Raises:
            OptionError: When a value isn't one of the words and doesn't fit the aggregate, also
                where ``.deltas()`` leaves nothing to repeat, or ``"linear"`` isn't for a number.

        Example:
            >>> import polars as pl
            >>> import muntin as mt
            >>> rows = pl.DataFrame(
            ...     {"at": ["2026-01-01 09:00", "2026-01-01 12:00"], "price": [1.0, 4.0]}
            ... )
            >>> hours = mt.windowed(rows, time="at").tumbling("1 hour")
            >>> filled = hours.fill(n=0, price="linear", up_to="1 day")
            >>> filled.agg(n=mt.count(), price=mt.mean("price")).results["price"].to_list()
            [1.0, 2.0, 3.0, 4.0]
        """
        fill = fill_of(value, up_to, values)
        return self._set_once("fill", fill, _firing=replace(self._firing, fill=fill))

    def late(
        self,
        *,
        grace: Length,
        each: bool = False,
        rows: int | None = None,
        every: Duration | None = None,
        at_least: int | None = None,
        after: Duration | None = None,
        since: Since | None = None,
        when: str | None = None,
        then: Then | None = None,
    ) -> Self:
        """Accept late messages for some time after a window's end, and emit the window again.

        With ``rows`` beside ``every`` or ``after`` a window emits by whichever comes first. A
        window that closes with changes that weren't emitted emits once more.

        Args:
            grace: How long after its end a window accepts messages; ``rows(N)`` for windows that
                are measured in rows.
            each: Emit after each batch that changed the window.
            rows: Emit after this number of late messages in the window.
            every: Emit when the wall clock passes a multiple of this; 10 seconds by default.
            at_least: With ``every``, the least number of new messages.
            after: Emit when this wall-clock time has passed since a late message that the window
                hasn't emitted; see ``early``.
            since: With ``after``, the message to measure from, ``"first"`` or ``"last"``.
            when: Emit after each batch that changed the window, if this condition is true; see
                ``early``.
            then: The policy of a window's late emissions after its first one; see ``early``.
        """
        length, _ = parse_length("grace", grace, zero=True)
        chosen = self._firing.late
        words = (rows, every, at_least, when, then, after, since)
        if each or any(word is not None for word in words):
            chosen = policy("late", each, *words)
            if not length:
                hint = 'give one such as grace="1 hour", or leave the policy out'
                raise OptionError("late", str(chosen), "has no effect without a grace", hint)
        return self._set_once(
            "late", grace, _firing=replace(self._firing, late=chosen), _grace=grace
        )

    def keep(self, retention: Length, *, rows: int | None = None) -> Self:
        """Keep a window's state for some time after its end; by default as long as the grace.

        Args:
            retention: How long after its end a window is kept; ``rows(N)`` for windows that are
                measured in rows. Not less than the grace.
            rows: Greatest number of messages that are kept in closed windows, divided equally among
                the shards. The oldest are dropped first, by ranges of time. Results don't depend on
                it.

        Raises:
            OptionError: When ``rows`` is less than 1.
        """
        parse_length("keep", retention, zero=True)
        check_count("rows", rows, of="row")
        firing = replace(self._firing, rows=rows)
        return self._set_once("keep", retention, _firing=firing, _kept=retention)

    def deltas(self) -> Self:
        """Let each emission have only the messages since the window's last one."""
        return replace(self, _firing=replace(self._firing, accumulate=False))

    def _set_windows(self, windows: Kind) -> Self:
        """Return the query with its windows, which can be set once."""
        return self._set_once("windows", windows, _windows=windows)

    def _set_once(self, step: str, value: object, **changes: Any) -> Self:
        """Return the query with a step that can be taken once."""
        if step in self._given:
            hint = "omit one of the two"
            raise OptionError(step, str(value), "comes after another, which it would replace", hint)
        return replace(self, _given=self._given | {step}, **changes)

    def _firing_on(self, axis: Axis) -> Firing:
        """Return the policies; refuse a grace or a retention that isn't measured on the axis."""
        grace = along("grace", self._grace, axis, zero=True)
        retention = grace if self._kept is None else along("keep", self._kept, axis, zero=True)
        return replace(self._firing, grace=grace, retention=retention)

    def _spec(
        self,
        aggregates: Mapping[str, Aggregate],
        keys: tuple[str, ...] = (),
        unnamed: tuple[Any, ...] = (),
    ) -> WindowSpec:
        """Return the spec of the query; refuse it if it isn't complete."""
        check_aggregates(aggregates, unnamed)
        if self._windows is None:
            names, hint = ", ".join(aggregates), "call .tumbling() first"
            raise OptionError("agg", names, "comes before the windows", hint)
        if not aggregates:
            raise OptionError("agg", None, "computes nothing", "write .agg(n=muntin.count())")
        sets = self._number_sets(keys)
        spec = WindowSpec(
            keys=(*keys, *list_result_keys(self._windows, sets)),
            time=self._input_options.time,
            windows=self._windows,
            aggregates=aggregates,
            firing=self._firing_on(self._windows.axis),
            nulls=self._nulls,
            sets=sets,
            **self._input_options.options,
        )
        return check_effects(spec)

    def _number_sets(self, keys: Sequence[object]) -> tuple[int, ...] | None:
        """Return the numbers of the grouping sets over these key columns."""
        return None if self._sets is None else number_sets(self._sets, keys)

    def _side(self, keys: tuple[str, ...], axis: Axis) -> Side:
        if self._nulls != "reject":
            hint = 'omit it: NULL has no partner; join(nulls="unmatched") emits it without one'
            raise OptionError("nulls", self._nulls, "isn't supported by joins", hint)
        if self._sets is not None:
            raise OptionError("sets", self._sets, "aren't those of a join", "omit them")
        if self._windows is not None and self._windows.result_key is not None:
            hint = "join the messages themselves within=, or window the pairs by trailing()"
            raise OptionError("trailing", str(self._windows), "aren't those of a join", hint)
        firing, options = set_default_policies(self._firing_on(axis)), self._input_options.options
        windows = require_one_axis(self._windows)
        return Side(keys, self._input_options.time, windows, firing=firing, **options)

    def _all_keys(self, keys: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the keys with those that the windows add."""
        windows, offset = self._windows, self._input_options.offset
        return keys if windows is None else windows.complete_keys(keys, offset)
