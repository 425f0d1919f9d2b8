"""Tests of the layouts of rejected messages, with column types of the host."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest

import muntin as mt
from muntin.hosts.rejected import RejectedLayout, UpstreamLayout

LAST = {"reason": "text", "watermark": "time"}
MARK_COLUMNS = {"side": "text", "stage": "number"}


def test_windows_over_windows_number_the_operators_of_rejected_messages() -> None:
    at = [datetime(2026, 1, 1), datetime(2026, 1, 1, 1), datetime(2026, 1, 1, 2)]
    rows = pl.DataFrame({"k": [None, "a", "b"], "at": at, "v": [1, 2, None]})
    inner = mt.windowed(rows, key="k", time="at").tumbling("1 minute").agg(v=mt.max("v"))
    outer = mt.windowed(inner, key="v", time="window_time").tumbling("1 day").agg(n=mt.count())
    assert outer.results["n"].to_list() == [1]
    rejected = outer.rejected.select("stage", "k", "reason").sort("stage")
    assert rejected.rows() == [(1, None, "null_key"), (2, "b", "null_key")]


def test_columns_of_one_name_and_two_types_get_a_suffix() -> None:
    upstream = UpstreamLayout({"k": "text", **LAST}, False, False, 1, 0)
    layout = RejectedLayout.of({"k": "number", **LAST}, {"": upstream}, MARK_COLUMNS, joins=False)
    assert layout.kinds == {"stage": "number", "k": "text", "k_result": "number", **LAST}
    assert (layout.own_names, layout.upstream_names) == ({"k": "k_result"}, {"": {}})


def test_an_operator_adds_the_columns_of_its_upstream_operators() -> None:
    upstream = UpstreamLayout({"id": "number", **LAST}, True, True, 0, 0)
    layout = RejectedLayout.of({"k": "text", **LAST}, {"": upstream}, MARK_COLUMNS, joins=False)
    rows = pl.DataFrame({"k": ["a"], "reason": ["late"], "watermark": [None]})
    all_columns = layout.add_columns(rows).select(*layout.kinds)
    assert all_columns.rows() == [("pair", None, "a", "late", None)]


def test_a_column_named_like_a_mark_is_refused() -> None:
    upstream = UpstreamLayout({"stage": "text", **LAST}, False, False, 1, 0)
    with pytest.raises(mt.OptionError, match="column='stage'"):
        RejectedLayout.of({"k": "text", **LAST}, {"": upstream}, MARK_COLUMNS, joins=False)
