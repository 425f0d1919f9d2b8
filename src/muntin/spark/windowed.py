"""The sentence that users write: DataFrame in, DataFrame out.

``windowed(frame, key=…, time=…).hopping(…).early(…).late(…).keep(…).agg(…)`` and then ``.results``,
``.rejected`` or ``.start(…)``. Each step returns a new value; nothing runs before the end, and
whatever can't work is refused before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame

from muntin.explain.size import Rates
from muntin.model.aggregates import Aggregate, count
from muntin.model.axis import Duration
from muntin.model.errors import OptionError
from muntin.model.inputs import Marks
from muntin.model.pipeline import ROWS
from muntin.model.sentence import Sentence
from muntin.model.spec import Nulls, WindowSpec
from muntin.spark.explain import explain
from muntin.spark.host.chain import Upstream, fed_by, lag_of, marked, with_time
from muntin.spark.query_definition import QueryDefinition
from muntin.spark.session import require
from muntin.spark.sources.inputs import Input
from muntin.spark.sources.naming import time_of
from muntin.spark.window_plan import build

if TYPE_CHECKING:
    from muntin.spark.join import Joined

Key = Column | str | Sequence[Column | str]


@dataclass(frozen=True, kw_only=True)
class Windowed(Sentence):
    """A DataFrame with a key, an event time, and (soon) windows; made by ``windowed``."""

    _frame: DataFrame
    _keys: tuple[Column | str, ...] = ()
    _where: Column | str | None = None
    _arrived: Column | None = None
    _buckets: int | None = None
    _fed: Upstream | None = None
    _computed: Column | None = None

    def agg(self, *unnamed: Aggregate, **aggregates: Aggregate) -> WindowedAggregate:
        """Say what the windows compute; output name = aggregate.

        Args:
            *unnamed: Refused, since every aggregate needs a name.
            **aggregates: The aggregates by the names of their columns in the output.

        Raises:
            OptionError: Naming what can't work: a column, a type, a size.
            SettingError: When the session lacks a setting that state needs.
        """
        # Which sets there are depends on the keys, which are named with the frame.
        spec = replace(self, _sets=None)._spec(aggregates, unnamed=unnamed)
        require(self._frame.sparkSession)
        keys = self._all_keys(self._keys)
        spec = replace(spec, sets=self._grouped(keys))
        return WindowedAggregate(build(self.input, keys, spec, self._buckets))

    def top(
        self, n: int, *, by: str | Sequence[str], ascending: bool | Sequence[bool] = False
    ) -> WindowedAggregate:
        """The first ``n`` messages of each window and key, each as a row with its ``rank``.

        It stands in place of ``agg``. ``top(1, by="at")`` is the latest message of each window,
        ``ascending=True`` with it the first one.

        Args:
            n: How many at most.
            by: The columns that messages are ordered by; of messages that are equal in them, by
                all columns from left to right, the least first.
            ascending: Whether the least is first, for all or for each of ``by``.

        Raises:
            OptionError: Naming what can't work: a column, a type, a policy.

        Example:
            >>> dearest = (
            ...     windowed(orders, key="shelf", time="at").tumbling("1 hour").top(3, by="price")
            ... )  # doctest: +SKIP
        """
        from muntin.spark.top import top_messages

        if self._sets is not None:
            hint = "leave out sets(), or write a query for each set"
            raise OptionError("sets", self._sets, "aren't taken by top()", hint)
        spec = self._spec({ROWS: count()})
        return top_messages(self.input, self._all_keys(self._keys), spec, n, by, ascending)

    def spec(self, **aggregates: Aggregate) -> WindowSpec:
        """The query in one value, before its columns are looked for in the frame.

        Keys that are expressions aren't named yet, and so aren't in it.

        Raises:
            OptionError: Naming what can't work: a size, a policy, a name.
        """
        named = tuple(key for key in self._all_keys(self._keys) if isinstance(key, str))
        return self._spec(aggregates, named)

    @property
    def input(self) -> Input:
        """What is read."""
        return Input(
            self._frame,
            self._marks.time,
            self._where,
            self._marks.clock,
            self._marks.max_ahead,
            self._marks.offset,
            self._fed,
            computed=self._computed,
            arrived=self._arrived,
        )


class WindowedAggregate(QueryDefinition):
    """A finished windowed aggregation over a streaming or batch DataFrame."""

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
        return super().results

    @cached_property
    def full(self) -> DataFrame:
        """The full firings alone: each window once, without what came early or late.

        Windows over these windows take it where a window may be emitted again.

        Raises:
            OptionError: When a full firing isn't a whole result (``deltas()``), or may be left out
                (``full(repeat=False)``).
        """
        assert isinstance(self.plan.spec, WindowSpec)
        firing = self.plan.spec.firing
        if not firing.accumulate and firing.early is not None:
            hint = "leave out deltas() or early()"
            raise OptionError("deltas", True, "leaves a full firing only what is new", hint)
        if not firing.repeat:
            hint = "leave out full(repeat=False)"
            raise OptionError("repeat", False, "leaves out windows that emitted early", hint)
        upstream = replace(self._upstream(), full=True)
        return marked(self._emitted().where(str(upstream.keep)), upstream)

    def top(
        self,
        n: int,
        *,
        by: str | Sequence[str],
        per: str | Sequence[str] = (),
        ascending: bool | Sequence[bool] = False,
    ) -> WindowedAggregate:
        """The first ``n`` of the windows that begin and end together, with their ``rank``.

        The columns are those of the results, and ``rank``, from 1. Each row is emitted once, when
        the windows are full. It is one query: the windows that were emitted are messages of it.

        Args:
            n: How many at most.
            by: The columns that windows are ordered by; of windows that are equal in them, by all
                columns from left to right, the least first.
            per: Key columns for each of whose values there are ``n``.
            ascending: Whether the least is first, for all or for each of ``by``.

        Raises:
            OptionError: Naming what can't work: a column, a type, a policy.

        Example:
            >>> worst = hourly.top(3, by="worst")  # doctest: +SKIP
        """
        from muntin.spark.top import top_windows

        rows = self.full if self._upstream().revises else self.results
        return top_windows(rows, n, by, per, ascending)

    def explain(self, *, rate: float | None = None, keys: int = 1000) -> str:
        """The windows on a ruler, the policies, the state, and what to be careful of, in words.

        Args:
            rate: How many messages come in a second; with it the size of the state is estimated.
            keys: How many keys send within a window.
        """
        return explain(self.plan, None if rate is None else Rates(rate, keys))


def windowed(
    frame: DataFrame | Joined | WindowedAggregate,
    *,
    key: Key = (),
    time: Column | str | None = None,
    offset: tuple[str, str] | None = None,
    lateness: Duration | None = None,
    max_ahead: Duration | None = "15 minutes",
    idle: Duration | None = None,
    watermark: str | Sequence[str] | None = None,
    where: Column | str | None = None,
    clock: Column | str | None = None,
    buckets: int | None = None,
    nulls: Nulls = "reject",
) -> Windowed:
    """Begin a windowed aggregation on Spark; ``muntin.windowed`` says what each option means."""
    keys = _keys_of(key)
    _check_column("where", where, "a condition", "give a condition, as a Column or as SQL")
    if buckets is not None and buckets < 1:
        raise OptionError("buckets", buckets, "is less than one", "give 1 or more")
    rows = _rows_of(frame)
    fed = fed_by(rows)
    rows, fed = with_time(rows, fed, time)
    time, computed = time_of(rows, time)
    _check_column("clock", clock, "a column", "give its name, or an expression as a Column")
    clock, arrived = time_of(rows, clock, "clock")
    if lateness is None:
        lateness = timedelta(microseconds=0 if fed is None else lag_of(fed))
    return Windowed(
        _frame=rows,
        _keys=keys,
        _marks=Marks.given(time, lateness, max_ahead, offset, idle, clock, watermark),
        _where=where,
        _arrived=arrived,
        _buckets=buckets,
        _nulls=nulls,
        _fed=fed,
        _computed=computed,
    )


def _check_column(option: str, given: object, what: str, hint: str) -> None:
    if given is not None and not isinstance(given, Column | str):
        raise OptionError(option, given, f"isn't {what}", hint)


def _rows_of(frame: object) -> DataFrame:
    rows = frame.results if isinstance(frame, QueryDefinition) else frame
    if not isinstance(rows, DataFrame):
        hint = "give spark.createDataFrame(rows), a stream of Spark's, windows or a join"
        home = type(rows).__module__.partition(".")[0]
        if home == "pandas":
            hint = "give spark.createDataFrame(frame)"
        elif home == "polars":
            hint = "give spark.createDataFrame(frame.to_arrow())"
        raise OptionError("frame", type(rows), "isn't a DataFrame of Spark's", hint)
    return rows


def _keys_of(key: Key) -> tuple[Column | str, ...]:
    keys = (key,) if isinstance(key, Column | str) or not isinstance(key, Sequence) else tuple(key)
    for one in keys:
        if not isinstance(one, Column | str):
            hint = "give names or expressions, or omit it where there is no key"
            raise OptionError("key", one, "isn't a column", hint)
    return keys
