"""Resolves the names and expressions of lowered queries, on both hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.joins import Side
from muntin.model.kinds import Kind
from muntin.model.pipeline import Expression
from muntin.model.spec import WindowSpec


def spell_as(name: str, names: Collection[str]) -> str | None:
    """Return the spelling of a name among columns or fields, ignoring case; `None` without one."""
    if name in names:
        return name
    same = [one for one in names if one.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def resolve_name(columns: Collection[str], name: str) -> str:
    """Return a column's name in the rows' own spelling, since SQL ignores case."""
    return spell_as(name, columns) or name


@dataclass(frozen=True)
class Resolver:
    """Resolves the names and expressions of a query against the columns of its rows.

    Attributes:
        columns: The columns of the rows.
        parse: Parses SQL text for an option as an expression of the host.
    """

    columns: Collection[str]
    parse: Callable[[str, str], Any]

    def resolve(self, name: str | None) -> str | None:
        """Return the name of a column; `None` for none."""
        return None if name is None else resolve_name(self.columns, name)

    def resolve_offset(self, offset: tuple[str, str] | None) -> tuple[str, str] | None:
        """Return the columns of a message's partition and offset."""
        if offset is None:
            return None
        return resolve_name(self.columns, offset[0]), resolve_name(self.columns, offset[1])

    def resolve_side(self, side: Side, name: str) -> Side:
        """Return a side of a join, which the statement names, with its columns resolved."""
        keys = tuple(resolve_name(self.columns, key) for key in side.keys)
        for key in keys:
            if key not in self.columns:
                hint = f"give some of {', '.join(self.columns)}"
                raise OptionError("on", key, f"isn't a column of {name}", hint)
        time, offset = self.resolve(side.time), self.resolve_offset(side.offset)
        return replace(side, keys=keys, time=time, offset=offset)

    def resolve_spec(self, spec: WindowSpec) -> WindowSpec:
        """Return windows over the rows, without keys."""
        return replace(
            spec,
            keys=(),
            time=self.resolve(spec.time),
            aggregates={name: self._resolve_operands(one) for name, one in spec.aggregates.items()},
            offset=self.resolve_offset(spec.offset),
            windows=self._resolve_windows(spec.windows),
        )

    def _resolve_operands(self, aggregate: Aggregate) -> Aggregate:
        def resolve(operand: Any) -> Any:
            if isinstance(operand, Expression):
                return self.parse("agg", operand.text)
            return resolve_name(self.columns, operand) if isinstance(operand, str) else operand

        return replace(aggregate, column=resolve(aggregate.column), by=resolve(aggregate.by))

    def _resolve_windows(self, windows: Kind) -> Kind:
        """Return windows over columns of the rows, and over expressions of the host.

        Conditions of sessions remain text, which a checkpoint stores.
        """

        def resolve(field: str, column: Any) -> Any:
            if isinstance(column, Expression):
                return self.parse(field, column.text)
            return resolve_name(self.columns, column) if field in ("column", "same") else column

        return windows.map_columns(resolve)
