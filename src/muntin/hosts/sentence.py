"""The parts of windowed queries and joins that both hosts share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic, TypeVar

from muntin.engine import columns
from muntin.hosts.chain import find_disorder
from muntin.model.aggregates import Aggregate, count
from muntin.model.axis import Axis
from muntin.model.bounds import SideName, find_bound
from muntin.model.errors import OptionError
from muntin.model.inputs import InputOptions
from muntin.model.joins import SIDES, JoinSpec, Side, make_pairs
from muntin.model.kinds import require_one_axis
from muntin.model.option_types import check_boolean, check_shards
from muntin.model.pipeline import ROWS
from muntin.model.policies import Every
from muntin.model.sentence import Sentence
from muntin.model.spec import WindowSpec

SentenceOptions = Mapping[str, Any]
"""The options of `muntin.windowed`, by name."""
A = TypeVar("A")


@dataclass(frozen=True, kw_only=True, repr=False)
class WindowSentence(Sentence, Generic[A]):
    """A windowed query over an input that isn't complete yet; `windowed` returns it."""

    _keys: tuple[Any, ...] = ()
    _where: Any = None
    _shards: int | None = None

    @abstractmethod
    def _build(self, spec: WindowSpec, keys: tuple[Any, ...]) -> A:
        """Return the complete windows."""

    @abstractmethod
    def _build_top(
        self, spec: WindowSpec, keys: tuple[Any, ...], n: int, by: Any, ascending: Any
    ) -> A:
        """Return the complete windows that emit the first messages of each."""

    def agg(self, *unnamed: Aggregate, **aggregates: Aggregate) -> A:
        """Set the aggregates of the windows, and complete the query.

        Args:
            *unnamed: Refused, since every aggregate needs a name.
            **aggregates: The aggregates by the names of their columns in the output. They take
                names of columns, expressions of the input (Spark's columns on Spark, `pl.Expr`
                elsewhere), or fields of structs.

        Raises:
            OptionError: When a column, a type or a size can't work; the error names it.
            SettingError: When a session of Spark lacks a setting that state needs.
        """
        # Grouping sets depend on the keys, whose names follow from the input.
        spec = replace(self, _sets=None)._spec(aggregates, unnamed=unnamed)
        keys = self._all_keys(self._keys)
        return self._build(replace(spec, sets=self._number_sets(keys)), keys)

    def top(
        self, n: int, *, by: str | Sequence[str], ascending: bool | Sequence[bool] = False
    ) -> A:
        """Rank the messages of each window and key, and take the first `n`, each as a row.

        It replaces `agg`, and its rows have a `rank`. `top(1, by="at")` is the latest message of
        each window; with `ascending=True` it is the earliest one.

        Args:
            n: The largest number of messages to take.
            by: The columns that messages are ordered by. With `offset=`, messages of equal
                times are ordered by arrival; other ties by all columns from left to right, the
                least value first.
            ascending: Whether the least value is first, for all or for each of `by`.

        Raises:
            OptionError: When a column, a type or a policy can't work; the error names it.

        Example:
            >>> dearest = (
            ...     windowed(orders, key="shelf", time="at").tumbling("1 hour").top(3, by="price")
            ... )  # doctest: +SKIP
        """
        if self._sets is not None:
            hint = "leave out sets(), or write a query for each set"
            raise OptionError("sets", self._sets, "aren't taken by top()", hint)
        spec, keys = self._spec({ROWS: count()}), self._all_keys(self._keys)
        return self._build_top(spec, keys, n, by, ascending)

    def spec(self, **aggregates: Aggregate) -> WindowSpec:
        """Return the query as one value, before its columns are resolved in the input.

        It leaves out keys that are expressions, which have no names yet.

        Raises:
            OptionError: When a size, a policy or a name can't work; the error names it.
        """
        named = tuple(key for key in self._all_keys(self._keys) if isinstance(key, str))
        return self._spec(aggregates, named)

    def _side(self, keys: tuple[str, ...], axis: Axis) -> Side:
        if self._shards is not None:
            hint = "give it to join(), whose shards keep both sides"
            raise OptionError("shards", self._shards, "can't be set for one side", hint)
        return super()._side(keys, axis)


def make_shared_parts(
    options: SentenceOptions, *, time: str | None, clock: str | None, rows: object
) -> dict[str, Any]:
    """Return the parts of a query that follow from the options of `windowed` on every host.

    ``clock`` is the column of arrival times. If ``rows`` are an operator's results, the lateness
    covers their disorder unless it is set.
    """
    check_shards(options["shards"])
    lateness = options["lateness"]
    if lateness is None:
        lateness = timedelta(microseconds=find_disorder(rows))
    return {
        "_input_options": InputOptions.parse(time, {**options, "lateness": lateness}, clock),
        "_nulls": options["nulls"],
        "_where": options["where"],
        "_shards": options["shards"],
    }


def list_keys(key: Any, expression: type, expressions: str) -> tuple[Any, ...]:
    """Return the key columns: names, or expressions of the host."""
    single = isinstance(key, str | expression) or not isinstance(key, Sequence)
    keys = (key,) if single else tuple(key)
    for column in keys:
        if not isinstance(column, str | expression):
            hint = f"give names or {expressions}, or omit it where there is no key"
            raise OptionError("key", column, "isn't a column", hint)
    return keys


def windows_as_messages() -> InputOptions:
    """Return the input options of windows' results: their time is the window's end."""
    return InputOptions(columns.WINDOW_END, max_ahead=None)


def make_side_error(side: SideName, value: object) -> OptionError:
    """Return the error of a side of a join that has no event time."""
    hint = (
        "write join(windowed(frame, time=…), …); a table that doesn't change is joined in "
        "front, or by JOIN in mt.sql"
    )
    return OptionError(side, type(value).__name__, "isn't windowed", hint)


def check_pair_columns(side: SideName, names: Sequence[str], keys: Sequence[str]) -> None:
    """Refuse columns that a join compares and a side lacks."""
    for key in keys:
        if key not in names:
            hint = f"give some of {', '.join(names)}, or pairs of names: on=[({key!r}, 'id')]"
            raise OptionError("on", key, f"isn't a column of the {side} side", hint)


def _refuse_ignored_parts(name: SideName, sentence: Sentence, side: Side) -> None:
    """Refuse what a join would ignore in a side: other keys, deltas, and a limit of no length."""
    for key in getattr(sentence, "_keys", ()):
        if not isinstance(key, str) or key not in side.keys:
            problem = "isn't compared: on= names the columns of a join"
            raise OptionError("key", f"{key} on the {name}", problem, "omit it, or add it to on=")
    if not side.firing.accumulate:
        problem = "isn't for joins: a pair is emitted once"
        raise OptionError("deltas", f"on the {name}", problem, "leave out deltas()")
    if sentence._kept is not None and side.firing.retention == side.firing.grace:
        value = f"{sentence._kept} on the {name}"
        problem = "has no effect: it isn't longer than the grace"
        raise OptionError("keep", value, problem, "keep messages for longer, or omit it")


def _refuse_windows_beside_within(name: SideName, side: Side) -> None:
    """Refuse windows of a side that bound no pair and let in no message."""
    if side.windows is not None and not isinstance(side.firing.early, Every):
        problem = "has no effect beside within=, which bounds a pair"
        raise OptionError("windows", f"{side.windows} on the {name}", problem, "omit one of them")


def join_sides(left: Sentence, right: Sentence, options: Mapping[str, Any]) -> JoinSpec:
    """Return the join of two inputs, by the options of `join` apart from the windows' own."""
    check_shards(options.get("shards"))
    pairs = make_pairs(options["on"])
    at_once = (left._input_options.time, right._input_options.time) in pairs
    bound = find_bound(
        options["within"],
        require_one_axis(left._windows),
        require_one_axis(right._windows),
        at_once=at_once,
        **{name: options[name] for name in ("as_of", "newest", "each_change")},
    )
    left_side, right_side = (
        sentence._side(tuple(pair[number] for pair in pairs), bound.axis)
        for number, sentence in enumerate((left, right))
    )
    for name, sentence, side in zip(SIDES, (left, right), (left_side, right_side), strict=True):
        _refuse_ignored_parts(name, sentence, side)
        # A standalone operator shows the windows of its sides.
        if options["within"] is not None and isinstance(sentence, WindowSentence):
            _refuse_windows_beside_within(name, side)
    how, layout, nulls = options["how"], options["layout"], options["nulls"]
    shared = options["shared_time"]
    check_boolean("shared_time", shared)
    check_boolean("each_change", options["each_change"])
    return JoinSpec(left_side, right_side, bound, how, layout, nulls=nulls, shared_time=shared)
