"""The oracle's last revisions are what DuckDB computes from all of the messages at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.duckdb_runner import computed_at_once
from tests.property.agreement import last_revisions, revision_differences
from tests.property.streams import POSITIONS, WIDEST, Range, Twins, twins_in_time
from tests.runners import Batch, OracleRunner

from muntin.model import aggregates
from muntin.model.days import HOUR, Hours
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows

EACH_KIND = [Range((kind,), POSITIONS, True, True, True, True) for kind in WIDEST.kinds]


@pytest.mark.parametrize("drawn_from", EACH_KIND, ids=lambda r: r.kinds[0])
@given(data=st.data())
def test_last_revisions_are_those_of_duckdb(drawn_from: Range, data: st.DataObject) -> None:
    twins: Twins = data.draw(twins_in_time(drawn_from))
    computed = computed_at_once(twins.spec, twins.other)
    # A rolling window that excludes its message may hold none.
    expected = {at: row for at, row in computed.items() if row["n"]}
    said = last_revisions(OracleRunner(), twins.spec, twins.one)
    known = next(iter(expected.values()), {})
    # What is filled has no message.
    found = {at: {name: row[name] for name in known} for at, row in said.items() if row["n"]}
    assert revision_differences(found, expected) == []


def test_hours_of_a_zone_are_its_parts_of_days() -> None:
    # On 2026-04-05 at 02:00 clocks of Lord Howe Island are set back by half an hour.
    hours = Hours(Windows(2, 1), "Australia/Lord_Howe", part=HOUR)
    spec = WindowSpec(("k",), "t", hours, {"n": aggregates.count()}, types={"k": "string"})
    minute = 60_000_000
    changed = 1_775_314_800_000_000
    messages = [{"k": "a", "t": changed + n * minute} for n in (-31, -1, 1, 31)]
    computed = computed_at_once(spec, [Batch(messages)])
    windows = {
        ((start - changed) // minute, (end - changed) // minute): row["n"]
        for (start, _, end), row in computed.items()
    }
    # 01:00 to 02:00 is an hour and a half long.
    assert windows == {(-120, 30): 3, (-60, 90): 4, (30, 150): 1}
