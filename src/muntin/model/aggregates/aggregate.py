"""An aggregate of a query: which one, and over which columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from muntin.model.aggregates.entry import ENTRIES, Entry
from muntin.model.axis import Axis, Length, measure, spell
from muntin.model.errors import OptionError
from muntin.model.facts import named
from muntin.model.json_dataclass import JsonDataclass
from muntin.model.shapes import ORDER, Shape

NullValues = Literal["keep", "skip"]


def null_options(nulls: NullValues) -> tuple[tuple[str, Any], ...]:
    """What becomes of nulls, as the options of an aggregate; the default isn't written down."""
    if nulls not in get_args(NullValues):
        hint = 'give "keep", or "skip" for the value of the first or last message that has one'
        raise OptionError("nulls", nulls, "isn't done with nulls", hint)
    return () if nulls == "keep" else (("nulls", nulls),)


def _unknown(rows: list[dict[str, Any]]) -> Any:
    raise LookupError("a checkpoint keeps no code")


@dataclass(frozen=True, slots=True)
class RowsFunction(JsonDataclass):
    """A user's function over all rows of a window.

    Attributes:
        columns: What it reads.
        function: ``list of rows -> result``; a row is a dictionary of the columns.
    """

    columns: tuple[str, ...]
    function: Callable[[list[dict[str, Any]]], Any] = field(default=_unknown, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate(JsonDataclass):
    """One aggregate of a query.

    Attributes:
        kind: Which function, for example ``"sum"``.
        column: The column it reads; ``None`` for a bare ``count()``.
        by: The ordering column of ``arg_min`` and ``arg_max``.
        options: Figures of the function, for example ``(("q", 0.95),)``, in a fixed order.
        functions: The user's own functions, for ``kind="user"``.
        rows: The user's function over a window's rows and its columns, for ``kind="apply"``.
        frame: How far it looks back from the end of a sliding window, in units of the axis;
            ``None`` is as far as the window does, and 0 is the last position alone.
        frame_axis: What that is measured on.
    """

    kind: str
    column: Any = None
    by: Any = None
    options: tuple[tuple[str, Any], ...] = ()
    functions: UserFunctions | None = field(default=None, compare=False)
    rows: RowsFunction | None = None
    frame: int | None = None
    frame_axis: Axis = "time"

    def over(self, length: Length) -> Aggregate:
        """Limit the aggregate to the last part of each rolling or sliding window.

        So one query computes over several lengths of time before a message:
        ``w.rolling("1 day").agg(hour=mt.sum("v").over("1 hour"), day=mt.sum("v"))``.

        Args:
            length: How far it looks back from the window's end, a duration or ``rows(N)``; at most
                as far as the window does. The ends that belong to it are those of the window.

        Example:
            >>> str(Aggregate("sum", "amount").over("1 hour"))
            'sum(amount) over 1 hour'
        """
        back, axis = measure("over", length)
        return replace(self, frame=back, frame_axis=axis)

    @property
    def entry(self) -> Entry:
        """What is known of it."""
        return ENTRIES[self.kind]

    def option(self, name: str) -> Any:
        """The value of one option."""
        return dict(self.options)[name]

    @property
    def skips_nulls(self) -> bool:
        """Whether messages without a value don't count."""
        return ("nulls", "skip") in self.options

    @property
    def starts_empty(self) -> bool:
        """Whether it may be added to what is stored of other aggregates; see ``Entry``."""
        # How many messages a part of a window has isn't stored of every cell, as of windows.
        return self.entry.starts_empty and (self.frame is None or self.column is not None)

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns that it reads."""
        own = tuple(c for c in (self.column, self.by) if c is not None)
        return own + (self.rows.columns if self.rows else ())

    def check(self, shapes: Mapping[str, Shape], words: str | None = None) -> None:
        """Refuse columns of types that it can't take: one question, which every door asks.

        What is taken has the value that Spark SQL gives, or the one that ``docs/windows.md`` names
        where the two differ on purpose.

        Args:
            shapes: The types of columns by name, of those that it reads at least.
            words: The aggregate in the user's words, where its columns were named anew.

        Example:
            >>> Aggregate("max", "name").check({"name": Shape("string", "string")})
        """
        asked = [(column, self.entry.accepts) for column in self.columns]
        if self.by is not None:
            asked[1] = (self.by, ORDER)
        for column, rule in asked:
            shape = shapes[str(column)]
            if not rule.accepts(shape):
                problem = f"reads a column of type {shape.text}"
                raise OptionError("agg", words or str(self), problem, rule.hint_for(shape))
            if shape.family != "struct" and "fields" in dict(self.options):
                hint = "give a struct of them, or True or False for ascending"
                problem = f"orders the fields of a column of type {shape.text}"
                raise OptionError("agg", words or str(self), problem, hint)

    def __str__(self) -> str:
        inside = [named(c) if isinstance(c, str) else str(c) for c in self.columns] + [
            f"{k}={v}" for k, v in self.options
        ]
        over = f" over {spell(self.frame, self.frame_axis)}" if self.frame else ""
        return f"{self.kind}({', '.join(inside)}){over}"


@dataclass(frozen=True, slots=True)
class UserFunctions:
    """A user's aggregate as KIP-94 writes it: initializer, aggregator, merger, and the end.

    Attributes:
        initializer: ``() -> state``.
        aggregator: ``(state, value) -> state``, called once per message with a new state.
        merger: ``(state, state) -> state``; must be associative.
        finisher: ``state -> result``; the identity where it isn't given.
        state_type: ``"long"``, ``"double"``, ``"string"``, ``"binary"`` or ``"boolean"``.
        result_type: The same, of the result.
    """

    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any], Any]
    merger: Callable[[Any, Any], Any]
    finisher: Callable[[Any], Any]
    state_type: str
    result_type: str
