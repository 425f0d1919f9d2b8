"""Lays out the columns of rejected messages of several operators in one frame."""

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
    """The layout of an upstream operator's rejected messages.

    Attributes:
        schema: The columns of its rejected messages; the last two are the reason and the watermark.
        joins: Whether it is a join.
        has_join: Whether it is a join or has one upstream.
        depth: The number of windows of the chain that its results have passed.
        marks: The columns that say which operator rejected a message.
    """

    schema: pl.Schema
    joins: bool
    has_join: bool
    depth: int
    marks: frozenset[str]


@dataclass(frozen=True)
class RejectedLayout:
    """The layout of rejected messages of an operator and its upstream operators in one frame.

    Attributes:
        schema: The columns.
        own_names: The renamed columns of the operator's own messages, with their new names.
        upstream_names: The renamed columns of upstream operators, by input.
        side: The side of the operator's own messages, where all have the same one.
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
            upstreams: The upstream operators, by input.
            joins: Whether it is a join.

        Raises:
            OptionError: When two columns would have the same name.
        """
        if not upstreams:
            return cls(own)
        marks: dict[str, pl.DataType] = {}
        if joins or any(upstream.has_join for upstream in upstreams.values()):
            marks[SIDE] = pl.String()
        if any(upstream.depth for upstream in upstreams.values()):
            marks[DEPTH] = pl.Int32()
        kinds: dict[str, pl.DataType] = {}
        renamed = {
            name: _merge_columns(kinds, upstream.schema, upstream.marks, f"_{name}")
            for name, upstream in upstreams.items()
        }
        own_names = _merge_columns(kinds, own, {SIDE} if joins else set(), _OWN_SUFFIX)
        for name in marks:
            if name in kinds:
                raise columns.make_clash_error("column", name, "rejected messages")
        last = {name: own[name] for name in (columns.REASON, columns.WATERMARK)}
        side = PAIR if not joins and upstreams[""].joins else None
        names = ("left", "right") if joins else ("",)
        depths = {n: (upstreams[n].depth if n in upstreams else 0) + 1 for n in names}
        return cls(pl.Schema({**marks, **kinds, **last}), own_names, renamed, side, depths)

    def fit_own(self, rejected: pl.DataFrame) -> pl.DataFrame:
        """Return messages that the operator itself rejected, in this layout."""
        rejected = rejected.rename(dict(self.own_names), strict=False)
        values: dict[str, pl.Expr] = {SIDE: pl.lit(self.side, dtype=pl.String())}
        if "" in self.depths:
            values[DEPTH] = pl.lit(self.depths[""])
        elif self.depths:
            values[DEPTH] = pl.col(SIDE).replace_strict(dict(self.depths))
        return self._fit(rejected, values)

    def fit_upstream(self, rejected: pl.DataFrame, name: str) -> pl.DataFrame:
        """Return messages that an upstream operator rejected, in this layout.

        Args:
            rejected: The messages.
            name: The input that the operator feeds: the side of a join, or the empty text.
        """
        rejected = rejected.rename(dict(self.upstream_names[name]), strict=False)
        if name and SIDE in rejected.columns:
            path = pl.concat_str([pl.lit(name), pl.col(SIDE)], separator="/", ignore_nulls=True)
            rejected = rejected.with_columns(path.alias(SIDE))
        elif name:
            rejected = rejected.with_columns(pl.lit(name).alias(SIDE))
        # A message without a depth was rejected by the first operator of the chain.
        return self._fit(rejected, {DEPTH: pl.lit(1)})

    def _fit(self, rejected: pl.DataFrame, values: Mapping[str, pl.Expr]) -> pl.DataFrame:
        selected = []
        for name, kind in self.schema.items():
            value: Any = (
                pl.col(name) if name in rejected.columns else values.get(name, pl.lit(None))
            )
            selected.append(value.cast(kind).alias(name))
        return rejected.select(selected)


def _merge_columns(
    kinds: dict[str, pl.DataType], schema: pl.Schema, marks: Collection[str], suffix: str
) -> dict[str, str]:
    """Add an operator's columns to those of others; columns of one name and type are shared.

    Returns:
        The renamed columns, with their new names.
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
