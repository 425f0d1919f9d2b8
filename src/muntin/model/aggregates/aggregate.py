"""An aggregate of a query: its function, columns and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from muntin.model.aggregates.entry import ENTRIES, Entry
from muntin.model.axis import Axis, Length, format_length, parse_length
from muntin.model.errors import OptionError
from muntin.model.facts import format_name
from muntin.model.json_dataclass import JsonDataclass
from muntin.model.shapes import ORDER, Shape

NullValues = Literal["keep", "skip"]


def null_options(nulls: NullValues) -> tuple[tuple[str, Any], ...]:
    """Return the treatment of nulls as options of an aggregate; none for the default."""
    if nulls not in get_args(NullValues):
        hint = 'give "keep", or "skip" for the value of the first or last message that has one'
        raise OptionError("nulls", nulls, "isn't a treatment of nulls", hint)
    return () if nulls == "keep" else (("nulls", nulls),)


def _unknown(rows: list[dict[str, Any]]) -> Any:
    raise LookupError("a checkpoint doesn't store functions")


@dataclass(frozen=True, slots=True)
class RowsFunction(JsonDataclass):
    """A user's function over all rows of a window.

    Attributes:
        columns: The columns that it reads.
        function: ``list of rows -> result``; a row is a dictionary of the columns.
    """

    columns: tuple[str, ...]
    function: Callable[[list[dict[str, Any]]], Any] = field(default=_unknown, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate(JsonDataclass):
    """One aggregate of a query.

    Attributes:
        column: The column that it reads; ``None`` for ``count()`` without a column.
        by: The ordering column of ``arg_min`` and ``arg_max``.
        options: Figures of the function, for example ``(("q", 0.95),)``, in a fixed order.
        functions: The user's own functions, for ``kind="user"``.
        rows: The user's function over a window's rows and its columns, for ``kind="apply"``.
        frame: How far it looks back from the end of a sliding window, in units of the axis;
            ``None`` for the whole window, and 0 for the last position alone.
        frame_axis: The axis that ``frame`` is measured on.
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

        A query can compute aggregates over several lengths of time before a message:
        ``w.rolling("1 day").agg(hour=mt.sum("v").over("1 hour"), day=mt.sum("v"))``.

        Args:
            length: How far it looks back from the window's end, a duration or ``rows(N)``; at most
                the size of the window. It includes the same ends as the window.

        Example:
            >>> str(Aggregate("sum", "amount").over("1 hour"))
            'sum(amount) over 1 hour'
        """
        back, axis = parse_length("over", length)
        return replace(self, frame=back, frame_axis=axis)

    @property
    def entry(self) -> Entry:
        """The registered entry of its kind."""
        return ENTRIES[self.kind]

    def option(self, name: str) -> Any:
        """Return the value of an option."""
        return dict(self.options)[name]

    @property
    def skips_nulls(self) -> bool:
        """True if messages without a value are skipped."""
        return ("nulls", "skip") in self.options

    @property
    def starts_empty(self) -> bool:
        """True if it can be added to a query that has stored state."""
        # Cells store the count of messages for whole windows, not for parts of them.
        return self.entry.starts_empty and (self.frame is None or self.column is not None)

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns that it reads."""
        own = tuple(c for c in (self.column, self.by) if c is not None)
        return own + (self.rows.columns if self.rows else ())

    def check(self, shapes: Mapping[str, Shape], words: str | None = None) -> None:
        """Refuse columns of types that the aggregate doesn't support.

        All front ends call this. A supported type has the value that Spark SQL computes, or the one
        in ``docs/aggregates.md`` where the two differ on purpose. ``words`` is the aggregate as the
        user wrote it, if its columns (those of ``shapes``) were renamed since.
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
        inside = [format_name(c) if isinstance(c, str) else str(c) for c in self.columns] + [
            f"{k}={v}" for k, v in self.options
        ]
        over = f" over {format_length(self.frame, self.frame_axis)}" if self.frame else ""
        return f"{self.kind}({', '.join(inside)}){over}"


@dataclass(frozen=True, slots=True)
class UserFunctions:
    """The functions of a user's aggregate, with the names of KIP-94.

    Attributes:
        initializer: ``() -> state``.
        aggregator: ``(state, value) -> state``, called once per message with a new state.
        merger: ``(state, state) -> state``; must be associative.
        finisher: ``state -> result``; the identity by default.
        state_type: ``"long"``, ``"double"``, ``"string"``, ``"binary"`` or ``"boolean"``.
        result_type: The type of the result, one of the same.
    """

    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any], Any]
    merger: Callable[[Any, Any], Any]
    finisher: Callable[[Any], Any]
    state_type: str
    result_type: str
