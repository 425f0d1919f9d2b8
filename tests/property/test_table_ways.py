"""Tables and agents give one answer, whatever the partitions, batches and restarts."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.table_ways import IN_WINDOWS, PAGES, TOPICS, USERS, Layout, make_greetings, run

TIMES = st.integers(0, 60).map(float)
EVENTS = st.fixed_dictionaries(
    {
        "user": st.sampled_from(USERS),
        "page": st.sampled_from(PAGES),
        "at": TIMES,
        "field": st.one_of(TIMES, TIMES, st.none()),
        "do": st.sampled_from(IN_WINDOWS),
    }
)
LAYOUTS = st.builds(
    Layout,
    by=st.sampled_from(["user", "both", None]),
    pairs=st.booleans(),
    hopping=st.sampled_from([(10.0, 10.0), (10.0, 5.0), (10.0, 3.0)]),
    expires=st.sampled_from([None, 1.0, 5.0, 20.0]),
    lateness=st.sampled_from([0, 0, 4]),
).filter(lambda layout: layout.pairs or layout.by != "both")


# Partitions, and how many events are committed together: many of both take their time.
WAYS = st.one_of(
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.integers(1, 8), st.integers(5, 99)),
)


def number_events(layout: Layout, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*make_greetings(layout), *({**row, "n": n} for n, row in enumerate(events))]


@settings(max_examples=max(8, settings.default.max_examples // 4))  # type: ignore[union-attr]
@given(st.data(), LAYOUTS, st.lists(EVENTS, max_size=14), st.lists(EVENTS, max_size=8))
def test_one_answer(
    data: st.DataObject,
    layout: Layout,
    first_events: list[dict[str, Any]],
    second_events: list[dict[str, Any]],
) -> None:
    rows = dict(
        zip(
            TOPICS,
            (number_events(layout, first_events), number_events(layout, second_events)),
            strict=True,
        )
    )
    expected = run(layout, rows, 1, 1, [])
    for partitions, batch in data.draw(st.lists(WAYS, min_size=1, max_size=2), "ways"):
        longest = max(map(len, rows.values()))
        cuts = sorted(data.draw(st.lists(st.integers(1, longest), max_size=2), "restarts"))
        stored = data.draw(st.booleans(), "stored")
        assert run(layout, rows, partitions, batch, cuts, stored) == expected
