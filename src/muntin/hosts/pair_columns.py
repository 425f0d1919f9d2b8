"""Maps the names of columns in a statement to the columns of a join's pairs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from muntin.engine import columns
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.pipeline import EMISSION_COLUMNS, SIDE_COLUMNS, SUFFIX, Column, JoinRelation


@dataclass(frozen=True)
class PairColumns:
    """The names in a statement for the columns of pairs.

    Attributes:
        sides: The columns of each side, with their names in pairs.
        merged: Pairs of columns that appear as one, in the place of the first.
        identity: The columns that identify a pair, where it may be emitted again.
    """

    sides: tuple[dict[str, str], dict[str, str]]
    merged: tuple[tuple[str, str], ...] = ()
    identity: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, joining: JoinRelation, spec: JoinSpec, left: Sequence[str], right: Sequence[str]
    ) -> PairColumns:
        """Return the names for a join, whose spec has the inputs' own column names.

        A name that both sides have needs a side in the statement.
        """
        identity: tuple[str, ...] = ()
        key_pairs = list(zip(spec.left.keys, spec.right.keys, strict=True))
        names_in_pairs = {c: f"{c}{SUFFIX}" if c in left else c for c in right}
        if spec.bound.revises:
            # Pairs have the key once, and emission columns of their own.
            left, right = ([c for c in side if c not in EMISSION_COLUMNS] for side in (left, right))
            names_in_pairs = {c: names_in_pairs[c] for c in right}
            names_in_pairs |= {right_key: left_key for left_key, right_key in key_pairs}
            identity = spec.left.keys
        ambiguous = {c.lower() for c in left} & {c.lower() for c in right}
        if joining.merged or spec.how in ("inner", "semi", "anti"):
            # Keys of one name can't differ in a pair, so either side's may be meant.
            ambiguous -= {a.lower() for a, b in key_pairs if a.lower() == b.lower()}
        for name in joining.bare:
            if name.lower() in ambiguous:
                hint = f"write {joining.names[0]}.{name} or {joining.names[1]}.{name}"
                raise OptionError("SELECT", name, "is a column of both sides", hint)
        merged: tuple[tuple[str, str], ...] = ()
        if joining.merged and not identity:
            merged = tuple((a, names_in_pairs[b]) for a, b in key_pairs)
        return cls(({c: c for c in left}, names_in_pairs), merged, identity)

    @property
    def emission_columns(self) -> tuple[str, ...]:
        """The columns that each pair has after the selected ones."""
        return EMISSION_COLUMNS if self.identity else EMISSION_COLUMNS[:1]

    def list_unqualified(
        self, columns_of_pairs: Collection[str]
    ) -> Iterator[tuple[str, str | None]]:
        """Yield each column that needs no side, and the column that replaces its NULL."""
        others = {one: two for one, two in self.merged if two in columns_of_pairs}
        for name in columns_of_pairs:
            if name in others or name not in others.values():
                yield name, others.get(name)

    def list_sides(self, columns_of_pairs: Collection[str]) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield each side's name in expressions, and its columns in pairs by their own names."""
        for side, names in zip(SIDE_COLUMNS, self.sides, strict=True):
            fields = {own: shown for own, shown in names.items() if shown in columns_of_pairs}
            if fields:
                yield side, fields

    def is_null_in_retractions(self, column: Column) -> bool:
        """Return whether a selected column is NULL in the retraction of a pair.

        Every computed column is NULL there, whatever its expression yields.
        """
        return bool(self.identity) and column.name not in self.identity

    @property
    def payloads(self) -> list[str]:
        """The columns of pairs with payloads that couldn't be decoded, which are NULL in all pairs.

        Messages with such a payload are rejected, so `*` doesn't stand for these columns.
        """
        names = (columns.PAYLOAD, columns.PAYLOAD_DETAIL)
        sides = (side for side in self.sides if {*names} <= side.keys())
        return [side[name] for side in sides for name in names]

    def select(self, shown: Iterable[Column]) -> list[Column]:
        """Return the selected columns without a pair's emission columns."""
        return [one for one in shown if one.name not in self.emission_columns]
