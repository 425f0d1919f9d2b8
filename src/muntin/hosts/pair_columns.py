"""Maps the names of columns in a statement to the columns of a join's pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muntin.engine import columns
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec, Newest
from muntin.model.pipeline import Joining

SUFFIX = "_right"
"""The suffix of columns of a join's right side whose names the left side has, too."""
_OWN = (columns.EMISSION, columns.REVISION)


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
        cls, joining: Joining, spec: JoinSpec, left: Sequence[str], right: Sequence[str]
    ) -> PairColumns:
        """Return the names for a join.

        Args:
            joining: The join as the user wrote it.
            spec: The join, with the inputs' own column names.
            left: The columns of the left side.
            right: The columns of the right side.

        Raises:
            OptionError: When the statement names a column that both sides have.
        """
        identity: tuple[str, ...] = ()
        pairs = list(zip(spec.left.keys, spec.right.keys, strict=True))
        right_names = {c: f"{c}{SUFFIX}" if c in left else c for c in right}
        if isinstance(spec.bound, Newest):
            # Pairs have the key once, and emission columns of their own.
            left, right = ([c for c in side if c not in _OWN] for side in (left, right))
            right_names = {c: right_names[c] for c in right} | {
                right_key: one for one, right_key in pairs
            }
            identity = spec.left.keys
        both = {c.lower() for c in left} & {c.lower() for c in right}
        # Equal columns of one name appear once if they can't differ, as in an inner join.
        one = joining.merged or spec.how in ("inner", "semi", "anti")
        keys = (
            {right_key.lower() for right_key, one in pairs if right_key.lower() == one.lower()}
            if one
            else set()
        )
        for name in joining.bare:
            if name.lower() in both - keys:
                hint = f"write {joining.names[0]}.{name} or {joining.names[1]}.{name}"
                raise OptionError("SELECT", name, "is a column of both sides", hint)
        merged: tuple[tuple[str, str], ...] = ()
        if joining.merged and not identity:
            merged = tuple((one, right_names[right_key]) for one, right_key in pairs)
        sides = {c: c for c in left}, right_names
        return cls(sides, merged, identity)
