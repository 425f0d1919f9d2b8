"""Tests of joins with the version of a row, as Flink and DuckDB write them."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal, lower_join

from muntin.model.bounds import AsOf, ByArrival
from muntin.model.inputs import AHEAD
from muntin.model.joins import JoinSpec, Side
from muntin.model.policies import Each, Firing

HOUR = 3_600_000_000
FLINK = (
    "SELECT o.id, r.rate FROM o WATERMARK at DELAY OF 0 SECONDS {how} JOIN r FOR SYSTEM_TIME AS OF "
    "o.at{alias} ON o.cur = r.cur"
)
DUCKDB = "SELECT o.id, r.rate FROM o ASOF {how} JOIN r ON o.cur = r.cur AND o.at >= r.since{more}"
VERSIONS = "r WATERMARK since DELAY OF 1 MINUTE"


def make_side(time: str, lateness: int = 0) -> Side:
    firing = Firing(early=Each(), late=Each())
    return Side(("cur",), time, firing=firing, lateness=lateness, max_ahead=AHEAD)


def test_as_flink_writes_it():
    text = FLINK.format(how="LEFT", alias="").replace("JOIN r", f"JOIN {VERSIONS}")
    join = lower_join(text)
    right = make_side("since", 60_000_000)
    assert join.spec == JoinSpec(make_side("at"), right, AsOf(), "left", nulls="unmatched")
    assert join.names == ("o", "r")


def test_an_alias_stands_behind_the_time():
    text = FLINK.format(how="", alias=" AS v").replace("r.", "v.")
    join = lower_join(text.replace("JOIN r", f"JOIN {VERSIONS}"))
    assert join.names == ("o", "v")
    assert join.spec.how == "inner"


@pytest.mark.parametrize(("words", "how"), [("", "inner"), ("LEFT", "left")])
def test_the_newest_row_by_arrival_is_that_of_processing_time(words, how):
    text = FLINK.replace("o.at", "PROCTIME()", 1).replace("o.at{", "PROCTIME(){")
    join = lower_join(
        text.format(how=words, alias=" AS v")
        .replace("r.", "v.")
        .replace("JOIN r", f"JOIN {VERSIONS}")
    )
    nulls = "reject" if how == "inner" else "unmatched"
    right = make_side("since", 60_000_000)
    assert join.spec == JoinSpec(make_side("at"), right, ByArrival(), how, nulls=nulls)


@pytest.mark.parametrize(("words", "how"), [("", "inner"), ("LEFT", "left"), ("INNER", "inner")])
def test_as_duckdb_writes_it(words, how):
    join = lower_join(DUCKDB.format(how=words, more=""))
    nulls = "reject" if how == "inner" else "unmatched"
    assert join.spec == JoinSpec(make_side("at"), make_side("since"), AsOf(), how, nulls=nulls)


def test_the_comparison_may_stand_the_other_way_round():
    text = DUCKDB.format(how="", more="").replace("o.at >= r.since", "r.since <= o.at")
    assert lower_join(text).spec.bound == AsOf()


def test_a_version_has_an_age():
    more = " AND r.since >= o.at - INTERVAL '1' HOUR"
    assert lower_join(DUCKDB.format(how="", more=more)).spec.bound == AsOf(HOUR)


def test_what_else_is_compared_chooses_among_pairs():
    join = lower_join(DUCKDB.format(how="", more=" AND o.amount > 5"))
    assert join.where == "__muntin_left.amount > 5"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (FLINK.format(how="", alias=""), "the rows of r aren't versions: they have no event time"),
        (
            FLINK.format(how="", alias="").replace("o.at ON", "now() ON"),
            "AS OF needs a column with the time",
        ),
        (
            FLINK.format(how="", alias="").replace("OF o.at", "OF r.at"),
            "AS OF needs a time of o",
        ),
        (
            FLINK.format(how="RIGHT", alias="").replace("JOIN r", f"JOIN {VERSIONS}"),
            "isn't for as_of joins",
        ),
        (
            DUCKDB.format(how="", more="").replace(" AND o.at >= r.since", ""),
            "ASOF compares one time of each side",
        ),
        (
            DUCKDB.format(how="", more=" AND o.other >= r.other"),
            "two times are compared",
        ),
        (
            DUCKDB.format(how="", more="").replace("o.at >=", "o.at - INTERVAL '1' HOUR >="),
            "this bounds a pair in time on one side only",
        ),
        (
            DUCKDB.format(how="", more="").replace(
                "o.at >= r.since", "r.since BETWEEN o.at AND o.at + INTERVAL '1' HOUR"
            ),
            "a version can't be newer than the row that it is joined with",
        ),
        (
            DUCKDB.format(how="", more="").replace(
                "JOIN r", "JOIN r OVER (ORDER BY since RANGE '2' min PRECEDING)"
            ),
            "a join with a version takes no OVER or WITHIN",
        ),
    ],
)
def test_what_is_refused(text, problem):
    assert problem in get_refusal(text)[0]
