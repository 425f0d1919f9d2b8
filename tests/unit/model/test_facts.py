"""What a checkpoint remembers is read back as it was."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model import aggregates, cumulating, days, sessions, sliding, windows
from muntin.model.axis import rows
from muntin.model.errors import OptionError
from muntin.model.facts import policy_of, read_back, windows_of
from muntin.model.policies import Each, Every, EveryRows, Firing
from muntin.model.spec import WindowSpec

LENGTHS = st.timedeltas(
    min_value=timedelta(microseconds=1),
    max_value=timedelta(days=900),
) | st.integers(1, 10**6).map(rows)
POLICIES = st.one_of(
    st.just(Each()),
    st.integers(1, 10**9).map(EveryRows),
    st.integers(1, 10**15).map(Every),
)


@st.composite
def kinds(draw):
    size = draw(LENGTHS)
    origin = draw(st.integers(-(10**15), 10**15))
    made = draw(
        st.sampled_from(["tumbling", "hopping", "cumulating", "sliding", "session", "days"])
    )
    if made == "tumbling":
        return windows.tumbling(size, origin=origin)
    if made == "hopping":
        return windows.hopping(size, size, origin=origin)
    if made == "cumulating":
        count = draw(st.integers(1, 5))
        whole = rows(size.count * count) if hasattr(size, "count") else size * count
        return cumulating.cumulating(whole, size, origin=origin)
    if made == "sliding":
        return sliding.sliding(size)
    if made == "session":
        return sessions.session(size, closed=draw(st.sampled_from(["both", "left"])))
    length = draw(st.integers(1, 9))
    zone = draw(st.sampled_from(["Europe/Berlin", "UTC"]))
    return days.days(f"{length} days", zone, slide=f"{draw(st.integers(1, length))} days")


@given(kind=kinds(), early=st.none() | POLICIES, late=POLICIES, buckets=st.integers(1, 500))
def test_specs_are_read_back(kind, early, late, buckets):
    offset = ("p", "o") if kind.axis == "rows" else None
    grace = 7 if kind.axis == "rows" else 7_000_000
    spec = WindowSpec(
        ("p", "k") if offset else ("k",),
        "ts" if kind.axis == "time" else None,
        kind,
        {"n": aggregates.count()},
        Firing(early, late, grace, 3 * grace),
        0 if offset else 61_000_001,
        types={"k": "String"},
        buckets=buckets,
        offset=offset,
    )
    found = read_back(spec.facts())
    assert (found.keys, found.time, found.windows) == (spec.keys, spec.time, kind)
    assert (found.early, found.late) == (early, late)
    assert (found.grace, found.retention, found.lateness) == (grace, 3 * grace, spec.lateness)
    assert (found.types, found.buckets, found.offset) == (spec.types, buckets, offset)


def test_a_query_without_keys_has_none():
    spec = WindowSpec((), "ts", windows.tumbling("1 hour"), {"n": aggregates.count()})
    assert read_back(spec.facts()).keys == ()


@pytest.mark.parametrize(
    "facts",
    [{}, {"join": "inner"}, {"windows": "round, origin 0 us"}, {"windows": "tumbling soon"}],
)
def test_what_cannot_be_read_back_is_refused(facts):
    spec = WindowSpec(("k",), "ts", windows.tumbling("1 hour"), {"n": aggregates.count()})
    whole = spec.facts() | facts if facts else {}
    with pytest.raises(OptionError, match="CHECKPOINT"):
        read_back(whole)


@pytest.mark.parametrize("text", ["", "now and then", "every", "every 5", "every x rows"])
def test_policies_are_not_guessed(text):
    with pytest.raises(ValueError, match=r".*"):
        policy_of(text)


@pytest.mark.parametrize("text", ["", "tumbling 1 hour", "tumbling 1 hour, origin x us"])
def test_windows_are_not_guessed(text):
    with pytest.raises(ValueError, match="no windows"):
        windows_of(text)
