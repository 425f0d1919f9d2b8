"""The oracle's last revisions equal what DuckDB computes from all messages at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.duckdb_runner import compute_windows
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
    computed = compute_windows(twins.spec, twins.second)
    # A rolling window that excludes its message may hold none.
    expected = {window: row for window, row in computed.items() if row["n"]}
    last_rows = last_revisions(OracleRunner(), twins.spec, twins.first)
    columns = next(iter(expected.values()), {})
    # Filled windows have no messages.
    actual = {
        window: {name: row[name] for name in columns}
        for window, row in last_rows.items()
        if row["n"]
    }
    assert revision_differences(actual, expected) == []


def test_hours_of_a_zone_are_its_parts_of_days() -> None:
    # On 2026-04-05 at 02:00 clocks of Lord Howe Island are set back by half an hour.
    hours = Hours(Windows(2, 1), "Australia/Lord_Howe", part=HOUR)
    spec = WindowSpec(("k",), "t", hours, {"n": aggregates.count()}, types={"k": "string"})
    minute = 60_000_000
    changed = 1_775_314_800_000_000
    messages = [{"k": "a", "t": changed + n * minute} for n in (-31, -1, 1, 31)]
    computed = compute_windows(spec, [Batch(messages)])
    windows = {
        ((start - changed) // minute, (end - changed) // minute): row["n"]
        for (start, _, end), row in computed.items()
    }
    # 01:00 to 02:00 is an hour and a half long.
    assert windows == {(-120, 30): 3, (-60, 90): 4, (30, 150): 1}
