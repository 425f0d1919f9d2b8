from __future__ import annotations

import polars as pl
import pytest

from muntin.hosts.local.lookups import TableLookup

TABLE = pl.DataFrame({"part": [0, 0, 1], "name": ["a", "b", "c"]})
ROWS = pl.DataFrame({"part": [0, 2, 0], "malformed": [None, None, b"?"]})


@pytest.mark.parametrize(
    ("how", "parts"),
    [("inner", [0, 0, 0]), ("left", [0, 0, 2, 0]), ("semi", [0, 0]), ("anti", [2, 0])],
)
def test_a_malformed_message_stays_once_though_its_key_has_a_match(
    how: str, parts: list[int]
) -> None:
    more = ("name",) if how in ("inner", "left") else ()
    lookup = TableLookup(how, TABLE, (("part", "part"),), None, more, "malformed")
    rows = lookup.apply(ROWS)
    assert rows["part"].to_list() == parts
    assert rows["malformed"].to_list() == [None] * (len(parts) - 1) + [b"?"]
