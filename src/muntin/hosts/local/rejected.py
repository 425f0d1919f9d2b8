"""The columns of rejected messages, where several operators of a chain reject some."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import SIDE
from muntin.hosts.chain import DEPTH, PAIR
from muntin.model.errors import OptionError

_OWN_SUFFIX = "_result"


@dataclass(frozen=True)
class Upstreams:
    """What is known of an operator before, to tell its rejected messages from the next one's.

    Attributes:
        schema: The columns of its rejected messages; the last two are the reason and the watermark.
        joins: Whether it is a join.
        has_join: Whether it is a join or has one before it.
        depth: How many windows of the chain its results have been through.
        marks: Those of the columns that say which operator rejected a message.
    """

    schema: pl.Schema
    joins: bool
    has_join: bool
    depth: int
    marks: frozenset[str]


@dataclass(frozen=True)
class RejectedLayout:
    """How rejected messages of an operator and of those before it fit into one frame.

    Attributes:
        schema: The columns.
        own_names: Columns of the operator's own messages that have another name here.
        upstream_names: The same, by input, of the operators before.
        side: The side of the operator's own messages, if that is one word.
        depths: The depth of the operator's own messages, by input.
    """

    schema: pl.Schema
    own_names: Mapping[str, str] = field(default_factory=dict)
    upstream_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    side: str | None = None
    depths: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, own: pl.Schema, upstreams: Mapping[str, Upstreams], *, joins: bool
    ) -> RejectedLayout:
        """Lay out the rejected messages of an operator.

        Args:
            own: The columns of the messages that it rejects itself.
            upstreams: The operators whose results it takes, by input.
            joins: Whether it is a join.

        Raises:
            OptionError: When two columns can't be told apart.
        """
        if not upstreams:
            return cls(own)
        marks: dict[str, pl.DataType] = {}
        if joins or any(one.has_join for one in upstreams.values()):
            marks[SIDE] = pl.String()
        if any(one.depth for one in upstreams.values()):
            marks[DEPTH] = pl.Int32()
        kinds: dict[str, pl.DataType] = {}
        renamed = {
            name: _merge(kinds, one.schema, one.marks, f"_{name}")
            for name, one in upstreams.items()
        }
        own_names = _merge(kinds, own, {SIDE} if joins else set(), _OWN_SUFFIX)
        for name in marks:
            if name in kinds:
                raise columns.taken("column", name, "rejected messages")
        last = {name: own[name] for name in (columns.REASON, columns.WATERMARK)}
        side = PAIR if not joins and upstreams[""].joins else None
        names = ("left", "right") if joins else ("",)
        depths = {n: (upstreams[n].depth if n in upstreams else 0) + 1 for n in names}
        return cls(pl.Schema({**marks, **kinds, **last}), own_names, renamed, side, depths)

    def fit_own(self, rejected: pl.DataFrame) -> pl.DataFrame:
        """Messages that the operator rejected itself."""
        rejected = rejected.rename(dict(self.own_names), strict=False)
        values: dict[str, pl.Expr] = {SIDE: pl.lit(self.side, dtype=pl.String())}
        if "" in self.depths:
            values[DEPTH] = pl.lit(self.depths[""])
        elif self.depths:
            values[DEPTH] = pl.col(SIDE).replace_strict(dict(self.depths))
        return self._fit(rejected, values)

    def fit_upstream(self, rejected: pl.DataFrame, name: str) -> pl.DataFrame:
        """Messages that an operator before rejected.

        Args:
            rejected: Those.
            name: The input that it feeds: the side of a join, or the empty text.
        """
        rejected = rejected.rename(dict(self.upstream_names[name]), strict=False)
        if name and SIDE in rejected.columns:
            path = pl.concat_str([pl.lit(name), pl.col(SIDE)], separator="/", ignore_nulls=True)
            rejected = rejected.with_columns(path.alias(SIDE))
        elif name:
            rejected = rejected.with_columns(pl.lit(name).alias(SIDE))
        # What has no depth yet was rejected by the first operator that it met.
        return self._fit(rejected, {DEPTH: pl.lit(1)})

    def _fit(self, rejected: pl.DataFrame, values: Mapping[str, pl.Expr]) -> pl.DataFrame:
        selected = []
        for name, kind in self.schema.items():
            value: Any = (
                pl.col(name) if name in rejected.columns else values.get(name, pl.lit(None))
            )
            selected.append(value.cast(kind).alias(name))
        return rejected.select(selected)


def _merge(
    kinds: dict[str, pl.DataType], schema: pl.Schema, marks: Collection[str], suffix: str
) -> dict[str, str]:
    """Add an operator's columns to all; one column serves several where types agree.

    Returns:
        The columns that have another name among all.
    """
    renamed = {}
    for column in list(schema)[:-2]:
        if column in marks:
            continue
        kind, name = schema[column], column
        if kinds.get(name, kind) != kind:
            name += suffix
            renamed[column] = name
        if kinds.setdefault(name, kind) != kind:
            raise OptionError("column", name, "is a column of two types", "rename one of them")
    return renamed
