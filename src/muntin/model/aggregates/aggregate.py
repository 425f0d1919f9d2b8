"""An aggregate of a query: which one, and over which columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.model.aggregates.entry import ENTRIES, Entry
from muntin.model.facts import named
from muntin.model.json_dataclass import JsonDataclass, read_by


def _pairs(stored: Iterable[Sequence[Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for name, value in stored)


def _unknown(rows: list[dict[str, Any]]) -> Any:
    raise LookupError("a checkpoint keeps no code")


@dataclass(frozen=True, slots=True)
class RowsFunction(JsonDataclass):
    """A user's function over all rows of a window.

    Attributes:
        columns: What it reads.
        function: ``list of rows -> result``; a row is a dictionary of the columns.
    """

    columns: tuple[str, ...] = field(metadata=read_by(tuple))
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
    """

    kind: str
    column: Any = None
    by: Any = None
    options: tuple[tuple[str, Any], ...] = field(default=(), metadata=read_by(_pairs))
    functions: UserFunctions | None = field(default=None, compare=False)
    rows: RowsFunction | None = field(default=None, metadata=read_by(RowsFunction.from_dict))

    @property
    def entry(self) -> Entry:
        """What is known of it."""
        return ENTRIES[self.kind]

    def option(self, name: str) -> Any:
        """The value of one option."""
        return dict(self.options)[name]

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns that it reads."""
        own = tuple(c for c in (self.column, self.by) if c is not None)
        return own + (self.rows.columns if self.rows else ())

    def __str__(self) -> str:
        inside = [named(c) if isinstance(c, str) else str(c) for c in self.columns] + [
            f"{k}={v}" for k, v in self.options
        ]
        return f"{self.kind}({', '.join(inside)})"


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
