"""Tests of rows as texts, as `muntin sql --format csv` prints them."""

from __future__ import annotations

import polars as pl

from muntin.sinks.json_text import list_texts


def test_bytes_that_are_no_text_are_escaped() -> None:
    rows = pl.DataFrame({"malformed": [b"a\xff", b"b", None]})
    assert list_texts(rows) == [("a\\xff",), ("b",), (None,)]
