"""Tests of relations: their tables and their inner queries."""

from __future__ import annotations

from muntin.model.bounds import Within
from muntin.model.joins import JoinSpec, Side
from muntin.model.pipeline import (
    Derived,
    JoinRelation,
    TableRelation,
    WindowRelation,
    find_tables,
    set_shards,
)
from muntin.model.spec import WindowSpec
from muntin.model.windows import tumbling

SPEC = WindowSpec((), "at", tumbling("1 minute"), {})
INNER = WindowRelation(Derived(TableRelation("Clicks")), SPEC, ())
SIDE = Side(("k",), "at")
PAIRS = JoinRelation(
    Derived(INNER), TableRelation("Views"), ("a", "b"), JoinSpec(SIDE, SIDE, Within(0, 0))
)
OUTER = WindowRelation(Derived(PAIRS), SPEC, ())


def test_every_query_of_a_chain_gets_the_number_of_shards() -> None:
    relation = set_shards(OUTER, 3)
    assert isinstance(relation, WindowRelation)
    assert relation.shards == 3
    assert isinstance(relation.source, Derived)
    pairs = relation.source.source
    assert isinstance(pairs, JoinRelation)
    assert (pairs.shards, pairs.right) == (3, TableRelation("Views"))
    assert isinstance(pairs.left, Derived)
    assert isinstance(pairs.left.source, WindowRelation)
    assert pairs.left.source.shards == 3
    assert pairs.left.source.source == INNER.source


def test_the_tables_of_a_chain() -> None:
    assert find_tables(OUTER) == {"clicks", "views"}
