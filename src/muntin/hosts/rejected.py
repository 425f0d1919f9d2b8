"""Lays out the rejected messages of several operators in one frame, on both hosts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.joiner import SIDE
from muntin.hosts.chain import DEPTH, PAIR, UpstreamOperator, depth_of, has_join
from muntin.model.errors import OptionError

ColumnType = TypeVar("ColumnType")
_OWN_SUFFIX = "_result"


@dataclass(frozen=True)
class UpstreamLayout(Generic[ColumnType]):
    """The layout of an upstream operator's rejected messages.

    Attributes:
        kinds: The types of its columns, by name; the last two are the reason and the watermark.
        has_join: Whether it is a join or has one upstream.
        depth: The number of windows of the chain that its results have passed.
        before: The number of windows of the chain that its messages have passed.
    """

    kinds: Mapping[str, ColumnType]
    joins: bool
    has_join: bool
    depth: int
    before: int

    @property
    def marks(self) -> set[str]:
        """The columns that say which operator rejected a message."""
        return {*([SIDE] if self.has_join else []), *([DEPTH] if self.before else [])}


@dataclass(frozen=True)
class RejectedLayout(Generic[ColumnType]):
    """The layout of rejected messages of an operator and its upstream operators in one frame.

    Attributes:
        kinds: The types of the columns, by name.
        own_names: The renamed columns of the operator's own messages, with their new names.
        upstream_names: The renamed columns of upstream operators, by input.
        side: The side of the operator's own messages, where all have the same one.
        depths: The depth of the operator's own messages, by input.
    """

    kinds: Mapping[str, ColumnType]
    own_names: Mapping[str, str] = field(default_factory=dict)
    upstream_names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    side: str | None = None
    depths: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        own: Mapping[str, ColumnType],
        upstreams: Mapping[str, UpstreamLayout[ColumnType]],
        mark_kinds: Mapping[str, ColumnType],
        *,
        joins: bool,
    ) -> RejectedLayout[ColumnType]:
        """Lay out the rejected messages of an operator and of its upstream operators by input.

        ``own`` are the types of its messages' columns, ``mark_kinds`` those of `SIDE` and `DEPTH`.
        """
        if not upstreams:
            return cls(own)
        marks = []
        if joins or any(one.has_join for one in upstreams.values()):
            marks.append(SIDE)
        if any(one.depth for one in upstreams.values()):
            marks.append(DEPTH)
        kinds: dict[str, ColumnType] = {}
        renamed = {
            name: _merge(kinds, one.kinds, one.marks, f"_{name}") for name, one in upstreams.items()
        }
        own_names = _merge(kinds, own, {SIDE} if joins else set(), _OWN_SUFFIX)
        for name in marks:
            if name in kinds:
                raise columns.make_clash_error("column", name, "rejected messages")
        last = {name: own[name] for name in (columns.REASON, columns.WATERMARK)}
        # A message that windows over a join reject is a pair, and belongs to neither side.
        side = PAIR if not joins and upstreams[""].joins else None
        names = ("left", "right") if joins else ("",)
        depths = {n: (upstreams[n].depth if n in upstreams else 0) + 1 for n in names}
        whole = {name: mark_kinds[name] for name in marks} | kinds | last
        return cls(whole, own_names, renamed, side, depths)

    def add_columns(self, rejected: pl.DataFrame) -> pl.DataFrame:
        """Return messages that the operator itself rejected, with the columns of all operators."""
        rejected = rejected.rename(dict(self.own_names), strict=False)
        lacking = [name for name in self.kinds if name not in rejected.columns]
        return rejected.with_columns(self._value(name).alias(name) for name in lacking)

    def _value(self, name: str) -> pl.Expr:
        if name != DEPTH:
            return pl.lit(self.side if name == SIDE else None)
        if "" in self.depths:
            return pl.lit(self.depths[""])
        return pl.col(SIDE).replace_strict(dict(self.depths))


def layout_upstream(
    upstream: UpstreamOperator, kinds: Mapping[str, ColumnType]
) -> UpstreamLayout[ColumnType]:
    """Return the layout of an upstream operator's rejected messages."""
    plan = upstream.plan
    return UpstreamLayout(kinds, plan.is_join, has_join(plan), upstream.depth, depth_of(plan))


def _merge(
    kinds: dict[str, ColumnType],
    added: Mapping[str, ColumnType],
    marks: Collection[str],
    suffix: str,
) -> dict[str, str]:
    """Add an operator's columns to those of others, and return the renamed ones.

    Columns of one name and type are shared.
    """
    renamed = {}
    for column in list(added)[:-2]:
        if column in marks:
            continue
        kind, name = added[column], column
        if kinds.get(name, kind) != kind:
            name += suffix
            renamed[column] = name
        if kinds.setdefault(name, kind) != kind:
            raise OptionError("column", name, "is a column of two types", "rename one of them")
    return renamed
