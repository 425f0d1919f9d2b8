"""Relations: what they read, and queries within them."""

from __future__ import annotations

from muntin.model.bounds import Within
from muntin.model.joins import JoinSpec, Side
from muntin.model.pipeline import (
    Derived,
    Joining,
    Reading,
    Windowing,
    find_tables,
    set_shards,
)
from muntin.model.spec import WindowSpec
from muntin.model.windows import tumbling

SPEC = WindowSpec((), "at", tumbling("1 minute"), {})
INNER = Windowing(Derived(Reading("Clicks")), SPEC, ())
SIDE = Side(("k",), "at")
PAIRS = Joining(Derived(INNER), Reading("Views"), ("a", "b"), JoinSpec(SIDE, SIDE, Within(0, 0)))
OUTER = Windowing(Derived(PAIRS), SPEC, ())


def test_every_query_of_a_chain_gets_as_many_shards() -> None:
    made = set_shards(OUTER, 3)
    assert isinstance(made, Windowing)
    assert made.shards == 3
    assert isinstance(made.source, Derived)
    pairs = made.source.source
    assert isinstance(pairs, Joining)
    assert (pairs.shards, pairs.right) == (3, Reading("Views"))
    assert isinstance(pairs.left, Derived)
    assert isinstance(pairs.left.source, Windowing)
    assert pairs.left.source.shards == 3
    assert pairs.left.source.source == INNER.source


def test_the_tables_of_a_chain() -> None:
    assert find_tables(OUTER) == {"clicks", "views"}
