"""Tests of summaries of queries, as text and as HTML for notebooks."""

from __future__ import annotations

import pytest

from muntin.explain.summary import format_html_summary, format_summary
from muntin.model.aggregates import count
from muntin.standalone import join, windowed

HOURS = windowed(key=["a<b", "k"], time="at").hopping("1 hour", "20 minutes").agg(n=count())
PAIRS = join(windowed(time="at"), windowed(time="at"), on="id", within="2 minutes", how="left")
COLUMNS = [("a<b", "string"), ("all", "array<bigint>")]


def test_windows_lie_on_a_ruler() -> None:
    lines = format_summary(HOURS, COLUMNS).splitlines()
    assert lines[0] == "windows   hopping 1 hour by 20 minutes, by a<b, k on at"
    assert any("|--" in line for line in lines)
    assert lines[-1] == "columns   a<b string, all array<bigint>"


def test_joins_describe_their_partners() -> None:
    assert format_summary(PAIRS, COLUMNS).splitlines()[:2] == [
        "join      left, on id",
        "partners  from 2 minutes before to 2 minutes after",
    ]


@pytest.mark.parametrize("spec", [HOURS, PAIRS])
def test_a_notebook_gets_a_table_and_no_markup_of_ours(spec: object) -> None:
    page = format_html_summary(spec, COLUMNS)
    assert page.startswith("<pre>")
    assert "<tr><td>a&lt;b</td><td>string</td></tr>" in page
    assert "array&lt;bigint&gt;" in page
    assert "a<b" not in page
