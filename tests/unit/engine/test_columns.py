from __future__ import annotations

from tests.unit.engine.queries import combiner, messages

from muntin.engine import columns
from muntin.model import aggregates


def test_keys_and_partials_are_named_by_position() -> None:
    assert columns.keys(combiner(keys=("key", "flag")).spec) == ["k0", "k1"]
    assert columns.partial(3, "n") == "a3.n"


def test_the_users_names_never_clash_with_the_engines() -> None:
    names = {"n": "value", "pane": "amount", "window": "value", "k0": "value", "a0.s": "value"}
    aggs = {name: aggregates.sum(column) for name, column in names.items()}
    query = combiner(aggs=aggs)
    cells = query.lift(messages([("a", 1, 5, 0.5), ("a", 2, 6, 0.25)]))
    emitted = query.merge([cells, cells], by=query.keys)
    pairs = zip(aggs, query.algebras, strict=True)
    values = {name: algebra.lower(emitted).item() for name, algebra in pairs}
    assert values == {"n": 22, "pane": 1.5, "window": 22, "k0": 22, "a0.s": 22}
