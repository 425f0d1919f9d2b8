"""The sentence of windows on the local host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.hosts.chain import WINDOW_TIME, disorder, refuse_revisions
from muntin.hosts.local.definition import LocalDefinition, LocalWindowedAggregate
from muntin.hosts.local.expressions import Expression
from muntin.hosts.local.plan import Input, Upstream
from muntin.hosts.local.window_plan import build_windows
from muntin.model.aggregates import Aggregate, count
from muntin.model.errors import OptionError
from muntin.model.inputs import Marks
from muntin.model.pipeline import ROWS
from muntin.model.sentence import Sentence
from muntin.model.spec import Nulls, WindowSpec
from muntin.sources.frames import frame_source
from muntin.sources.source import Source

Rows = Source | Upstream


@dataclass(frozen=True, kw_only=True)
class LocalWindowed(Sentence):
    """A source or a frame with a key, an event time, and (soon) windows; made by `windowed`."""

    _rows: Rows
    _keys: tuple[Any, ...] = ()
    _time: Expression | None = None
    _where: Expression | None = None
    _clock: Expression | None = None
    _shards: int | None = None

    def agg(self, *unnamed: Aggregate, **aggregates: Aggregate) -> LocalWindowedAggregate:
        """Say what the windows compute; output name = aggregate.

        Args:
            *unnamed: Refused, since every aggregate needs a name.
            **aggregates: The aggregates by the names of their columns in the output. They take
                names of columns, Polars expressions, or SQL text.

        Raises:
            OptionError: Naming what can't work: a column, a type, a size.
        """
        # Which sets there are depends on the keys, which are named with the rows.
        spec = replace(self, _sets=None)._spec(aggregates, unnamed=unnamed)
        keys = self._all_keys(self._keys)
        spec = replace(spec, sets=self._grouped(keys))
        return LocalWindowedAggregate(build_windows(self.input, keys, spec, self._shards))

    def top(
        self, n: int, *, by: str | Sequence[str], ascending: bool | Sequence[bool] = False
    ) -> LocalWindowedAggregate:
        """The first `n` messages of each window and key, each as a row with its `rank`.

        It stands in place of `agg`. `top(1, by="at")` is the latest message of each window,
        `ascending=True` with it the first one.

        Args:
            n: How many at most.
            by: The columns that messages are ordered by; of messages that are equal in them, by
                all columns from left to right, the least first.
            ascending: Whether the least is first, for all or for each of `by`.

        Raises:
            OptionError: Naming what can't work: a column, a type, a policy.
        """
        from muntin.hosts.local.ranked import top_messages

        if self._sets is not None:
            hint = "leave out sets(), or write a query for each set"
            raise OptionError("sets", self._sets, "aren't taken by top()", hint)
        spec, keys = self._spec({ROWS: count()}), self._all_keys(self._keys)
        return LocalWindowedAggregate(top_messages(self.input, keys, spec, n, by, ascending))

    def spec(self, **aggregates: Aggregate) -> WindowSpec:
        """The query in one value, before its columns are looked for in the rows.

        Keys that are expressions aren't named yet, and so aren't in it.

        Raises:
            OptionError: Naming what can't work: a size, a policy, a name.
        """
        named = tuple(key for key in self._all_keys(self._keys) if isinstance(key, str))
        return self._spec(aggregates, named)

    @property
    def input(self) -> Input:
        """What is read."""
        marks = self._marks
        return Input(
            self._rows, self._time, self._where, self._clock, marks.max_ahead, marks.offset
        )


def begin_windowed(
    frame: object,
    key: Any,
    time: Any,
    offset: tuple[str, str] | None,
    lateness: Any,
    max_ahead: Any,
    idle: Any,
    watermark: Any,
    where: Any,
    clock: Any,
    buckets: int | None,
    nulls: Nulls,
) -> LocalWindowed:
    """Begin a windowed aggregation on the local host; see `muntin.windowed`.

    Raises:
        OptionError: Naming what can't work.
    """
    if buckets is not None and buckets < 1:
        raise OptionError("buckets", buckets, "is less than one", "give 1 or more")
    rows = rows_of("frame", frame)
    for option, given in (("time", time), ("where", where), ("clock", clock)):
        if given is not None and not isinstance(given, str | pl.Expr):
            hint = "give a name, a Polars expression, or SQL"
            raise OptionError(option, given, "isn't a column", hint)
    if lateness is None:
        late = disorder(rows.plan.spec) if isinstance(rows, Upstream) else 0
        lateness = timedelta(microseconds=late)
    at_end = isinstance(time, str) and time == WINDOW_TIME
    if at_end and not isinstance(rows, Upstream) and _has_ends(rows.schema):
        # Results that came as a frame, where Spark's remember what they are.
        time = (pl.col(columns.WINDOW_END) - pl.duration(microseconds=1)).alias(WINDOW_TIME)
    name = time.meta.output_name() if isinstance(time, pl.Expr) else time
    arrived = clock.meta.output_name() if isinstance(clock, pl.Expr) else clock
    return LocalWindowed(
        _marks=Marks.given(name, lateness, max_ahead, offset, idle, arrived, watermark),
        _nulls=nulls,
        _rows=rows,
        _keys=_keys_of(key),
        _time=time,
        _where=where,
        _clock=clock,
        _shards=buckets,
    )


def rows_of(option: str, given: object, *, each_change: bool = False) -> Rows:
    """The source of a frame, a source itself, or the operator whose results are taken.

    Raises:
        OptionError: When it is none of these, or emits windows more than once.
    """
    if isinstance(given, LocalDefinition):
        upstream = replace(given.upstream, each_change=each_change)
        if upstream.emits_again and not each_change:
            refuse_revisions(upstream.plan.spec, each_change=each_change)
        return upstream
    found = frame_source(given)
    if found is not None:
        return found
    if isinstance(given, Source):
        return given
    hint = "give a Polars, pandas or Arrow frame, a source such as mt.kafka(…), windows or a join"
    raise OptionError(option, type(given), "isn't a frame or a source", hint)


def _has_ends(schema: pl.Schema) -> bool:
    """Whether rows have the ends of windows, and no last moments."""
    return WINDOW_TIME not in schema and isinstance(schema.get(columns.WINDOW_END), pl.Datetime)


def _keys_of(key: Any) -> tuple[Any, ...]:
    keys = (key,) if isinstance(key, str | pl.Expr) or not isinstance(key, Sequence) else (*key,)
    for one in keys:
        if not isinstance(one, str | pl.Expr):
            hint = "give names or Polars expressions, or omit it where there is no key"
            raise OptionError("key", one, "isn't a column", hint)
    return keys
