"""The oracle's last revisions are what DuckDB computes from all of the messages at once."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.doors import OracleDoor
from tests.duckdb_door import computed_at_once
from tests.property.agreement import last_revisions, revision_differences
from tests.property.streams import POSITIONS, WIDEST, Range, Twins, twins_in_time

from muntin.model.days import Hours

EACH_KIND = [Range((kind,), POSITIONS, True, True, True, True) for kind in WIDEST.kinds]


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=lambda r: r.kinds[0])
@given(data=st.data())
def test_last_revisions_are_those_of_duckdb(drawn_from: Range, data: st.DataObject) -> None:
    twins: Twins = data.draw(twins_in_time(drawn_from))
    assume(not isinstance(twins.spec.windows, Hours))  # no calendar here has parts of days
    computed = computed_at_once(twins.spec, twins.other)
    # A rolling window that excludes its message may hold none.
    expected = {at: row for at, row in computed.items() if row["n"]}
    said = last_revisions(OracleDoor(), twins.spec, twins.one)
    known = next(iter(expected.values()), {})
    # What is filled has no message.
    found = {at: {name: row[name] for name in known} for at, row in said.items() if row["n"]}
    assert revision_differences(found, expected) == []
