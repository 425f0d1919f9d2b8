"""Tests of the page that is written from a small DuckDB file."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import duckdb
import pytest
from examples.flights.report import charts
from examples.flights.report.page import RunFacts, write_page
from examples.flights.report.story import read_story, read_worst_hours
from tests.examples.flights import sample

VOID = {"meta", "br", "line", "rect", "path", "img", "hr", "input"}
BOUNDS = {"lateness": "1 hour", "grace": "3 hours"}
RUN = RunFacts(
    flights=8,
    files=3,
    seconds=2.0,
    **BOUNDS,
    counts={"by origin": {"seen": 8, "counted": 7, "late": 1}},
    verdicts=[("12 windows equal <DuckDB's>", True)],
    airlines={"UA": "United & Sons"},
)


class Nesting(HTMLParser):
    """A parser that fails where a closing tag doesn't match the open one."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)


@pytest.fixture
def database(tmp_path):
    return sample.write_database(tmp_path, sample.write_sample(tmp_path), **BOUNDS)


@pytest.fixture
def html(database, tmp_path):
    return write_page(database, RUN, tmp_path / "page.html").read_text(encoding="utf-8")


def test_tags_are_nested(html):
    nesting = Nesting()
    nesting.feed(html)
    assert nesting.open == []
    assert nesting.tags.count("h1") == 1
    assert nesting.tags.count("svg") >= 4


def test_nothing_is_asked_of_the_network(html):
    assert not re.search(r"https?:|url\(|@import|<link|<script|\ssrc=", html)


def test_figures_names_and_verdict_are_there(html):
    assert "<dt>messages in, over both queries</dt><dd>8</dd>" in html
    assert "<dt>rejected: late</dt><dd>1</dd>" in html
    assert "12 windows equal &lt;DuckDB&#x27;s&gt;" in html
    assert "United &amp; Sons" in html


def test_every_chart_says_what_it_shows_and_has_a_table(html):
    for tag in re.findall(r"<svg[^>]*>", html):
        assert re.search(r'aria-label="[^"]{10,}"', tag)
    assert html.count("<details>") >= 4


def test_a_stream_without_rejected_messages_has_a_page(database, tmp_path):
    with duckdb.connect(str(database)) as connection:
        for key in ("origin", "carrier"):
            connection.execute(f"DROP TABLE {key}_rejected")
    page = write_page(database, RUN, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "No flight was rejected" in page


def test_late_firings_are_measured_by_how_far_they_moved_the_mean(database):
    assert set(read_story(database).changes) == {3}


def test_each_airport_has_one_worst_hour(database):
    hours = read_worst_hours(database, "origin")
    assert hours
    assert [h.mean for h in hours] == sorted((h.mean for h in hours), reverse=True)
    assert len({h.name for h in hours}) == len(hours)


def test_steps_cover_their_range():
    for low, high in ((0, 0), (0, 7), (-3, 41), (0, 1e6)):
        rungs = charts.round_steps(low, high)
        assert rungs[0] <= low
        assert rungs[-1] >= high
