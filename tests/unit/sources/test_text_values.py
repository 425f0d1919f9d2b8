"""Tests of texts that are parsed as times in UTC, whichever ISO form each row has."""

from __future__ import annotations

import polars as pl

from muntin.sources.text_values import parse_times

SECOND = 1_000_000


def test_forms_of_times_may_differ_from_row_to_row() -> None:
    texts = {
        "1970-01-01 00:00:01": SECOND,
        "1970-01-01T02:00:02+02:00": 2 * SECOND,
        "1970-01-01T00:00:00.5Z": SECOND // 2,
        "1970-01-01 00:01": 60 * SECOND,
        "1970-01-02": 86_400 * SECOND,
        "tomorrow": None,
        "-1": None,
        "1767225600000": None,
        None: None,
    }
    frame = pl.DataFrame({"at": list(texts)}, schema={"at": pl.String()})
    assert frame.select(parse_times(pl.col("at")))["at"].to_list() == list(texts.values())
    assert frame.clear().select(parse_times(pl.col("at"))).schema == {"at": pl.Int64()}


def test_a_literal_is_one_time_for_all_rows() -> None:
    frame = pl.DataFrame({"n": [1, 2]}).lazy()
    result = frame.with_columns(at=parse_times(pl.lit("1970-01-01T00:00:01")))
    assert result.collect()["at"].to_list() == [SECOND, SECOND]
