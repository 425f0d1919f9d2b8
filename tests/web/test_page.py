"""Tests of the live page in a browser: it loads, updates, survives restarts and shows errors."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from tests.web.browser import Browser, find_chromium

from muntin.cli.page import _CHARTS, _TILES
from muntin.model.errors import OptionError
from muntin.serve import Feed, Subject
from muntin.serve.app import Server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_chromium() is None, reason="needs Chromium (Debian: apt install chromium)"
    ),
]
START = 1_767_225_600_000
COLUMNS = ("key", "window_start", "window_end", "total", "emission", "revision")


@pytest.fixture
def feed() -> Feed:
    feed_of_visits = Feed()
    add_query(feed_of_visits)
    return feed_of_visits


def add_query(feed: Feed) -> None:
    feed.add(Subject("visits", _TILES, _CHARTS, ("key",), COLUMNS))


def emit(feed: Feed, number: int, **options: object) -> None:
    windows = [
        {
            "key": key,
            "window_start": START + 3_600_000 * number,
            "window_end": START + 3_600_000 * (number + 1),
            "total": number + 1,
            "emission": emission,
            "revision": 0,
        }
        for key, emission in (("ann", "early"), ("bob", "full"), ("cyd", "late"))
    ]
    numbers = {"seen": 100 * (number + 1), "rate": 50.0, "watermark": START, "lag": 1.5, "state": 3}
    feed.add_batch(
        "visits",
        number,
        at=START + 1000 * number,
        numbers=numbers,
        windows=windows,
        **options,  # type: ignore[arg-type]
    )


TILE = "document.querySelector('#tiles dd').textContent"
STATUS = "document.querySelector('#status').textContent"
ROWS = "document.querySelectorAll('#windows tr').length"


def test_the_first_minute_says_what_is_to_come(feed: Feed, browser: Browser) -> None:
    none = "document.querySelector('#windows-none')"
    with Server(feed, port=0) as server:
        browser.open(server.address)
        browser.wait(f"{STATUS} === 'Waiting for the first batch …'")
        assert browser.value(f"{none}.innerText") == "No window has been emitted yet."
        browser.wait("document.querySelectorAll('.chart.waits').length === 4")
        emit(feed, 0)
        browser.wait(f"{TILE} === '100' && {none}.hidden")
        assert browser.value("document.querySelectorAll('.chart.waits').length") == 4
        emit(feed, 1)
        browser.wait("document.querySelectorAll('.chart.waits').length === 0")
        browser.value(
            "(() => { const k = document.querySelector('#key'); k.value = 'nobody';"
            " k.dispatchEvent(new Event('input')); })()"
        )
        assert browser.value(f"{none}.innerText") == "No window of such a key."
        assert browser.value("Shown.said(1490.31)") == "1,490"
        assert browser.value("Shown.said(-2.956)") == "-2.96"
        assert browser.errors == []


def test_the_page_lives(feed: Feed, browser: Browser) -> None:
    with Server(feed, port=0) as server:
        emit(feed, 0)
        browser.open(server.address)
        browser.wait(f"{TILE} === '100'")
        assert browser.value(STATUS) == "Live"
        rejected = {"late": 2, "null_key": 0}
        emit(feed, 1, rejected=rejected, samples=[{"id": 7, "reason": "late"}], phases={"add": 9.0})
        browser.wait(f"{TILE} === '200'")
        assert browser.value(ROWS) == 6
        for emission in ("early", "full", "late"):
            assert browser.value(f"document.querySelectorAll('td.{emission}').length") == 2
        assert browser.value("document.querySelector('#reasons').innerText") == "2 late"
        assert browser.value("document.querySelectorAll('#samples td').length") == 2
        assert browser.value("document.querySelectorAll('canvas').length") == 5
        browser.value(
            "(() => { const k = document.querySelector('#key'); k.value = 'BOB';"
            " k.dispatchEvent(new Event('input')); })()"
        )
        assert browser.value(ROWS) == 2

        feed.mark_ended("visits", "disk full")
        browser.wait("!document.querySelector('#failure').hidden")
        assert "disk full" in browser.value("document.querySelector('#failure').textContent")
        assert browser.value(STATUS) == "Failed"
        add_query(feed)
        emit(feed, 0)
        browser.wait(f"{STATUS} === 'Live' && {TILE} === '100'")
        assert browser.value("document.querySelector('#failure').hidden")
        assert browser.errors == []
        assert {url.split("/")[2] for url in browser.loaded if url.startswith("http")} == {
            f"127.0.0.1:{server.port}"
        }
        port = server.port
    browser.wait(f"{STATUS}.startsWith('Connection lost')")
    with Server(feed, port=port):
        browser.wait(f"{STATUS} === 'Live'")


def test_a_look_into_the_state(feed: Feed, browser: Browser) -> None:
    shards = [{"shard": 0, "bytes": 2_000_000, "blobs": 3}]

    def look(key: Sequence[str]) -> dict[str, object]:
        if key == ["zoe"]:
            raise OptionError("key", "zoe", "isn't a key", "give another")
        state = {"batch": 4, "spec": {"windows": "tumbling 1 hour"}, "shards": shards}
        rows = {"key": [{"window_start": START, "messages": 7}]} if key else {}
        return {**state, "tables": [{"table": "panes", "rows": 12, "bytes": 99}], **rows}

    feed.add(Subject("visits", _TILES, _CHARTS, ("key",), COLUMNS), look)
    status = "document.querySelector('#held-said').textContent"
    cells = "[...document.querySelectorAll('#held td')].map(c => c.textContent)"
    look_up = """(() => {{ document.querySelector('#held-key').value = '{}';
              document.querySelector('#look button').click(); }})()"""
    with Server(feed, port=0) as server:
        emit(feed, 0)
        browser.open(server.address)
        browser.wait(f"{TILE} === '100'")
        browser.value(look_up.format(""))
        browser.wait(f"{status} === 'Batch 4: tumbling 1 hour; 2 MB in 1 shard.'")
        assert browser.value(cells) == ["panes", "12", "99"]
        browser.value(look_up.format("ann"))
        browser.wait(f"{cells}.length === 2")
        assert browser.value(cells) == ["2026-01-01 00:00:00", "7"]
        browser.value(look_up.format("zoe"))
        browser.wait(f"{status}.includes('give another')")
        assert browser.value(cells) == []


def test_a_key_of_several_columns_may_have_commas_in_it(feed: Feed, browser: Browser) -> None:
    keys: list[Sequence[str]] = []

    def look(key: Sequence[str]) -> dict[str, object]:
        keys.append(list(key))
        raise OptionError("key", len(keys), "isn't a key", "give another")

    columns = ("city", *COLUMNS)
    feed.add(Subject("visits", _TILES, _CHARTS, ("city", "key"), columns), look)
    typed = ["Bonn, 7", '"Washington, D.C.", 7', '7,"say ""a, b"""', "Bonn,", 'a"b,"c']
    with Server(feed, port=0) as server:
        emit(feed, 0)
        browser.open(server.address)
        browser.wait(f"{TILE} === '100'")
        for number, text in enumerate(typed, start=1):
            browser.value(
                f"""(() => {{ document.querySelector('#held-key').value = {json.dumps(text)};
                document.querySelector('#look button').click(); }})()"""
            )
            status = "document.querySelector('#held-said').textContent"
            browser.wait(f"{status}.includes('key={number} ')")
    washington, quoted = ["Washington, D.C.", "7"], ["7", 'say "a, b"']
    assert keys == [["Bonn", "7"], washington, quoted, ["Bonn", ""], ['a"b', '"c']]


def test_values_are_shown_as_people_read_them(feed: Feed, browser: Browser) -> None:
    kinds = {"window_start": "time", "window_end": "time", "total": "count"}
    times = {"at": "time", "watermark": "time"}
    feed.add(Subject("visits", _TILES, _CHARTS, ("key",), COLUMNS, kinds, times))
    sample = {"user": 1795354393480, "place": '{"lat": 1.5}', "more": "x" * 500}
    emit(feed, 0, samples=[{**sample, "at": START + 5, "reason": "late", "watermark": START}])
    odd = [1_767_225_600_000_000, 9 * 10**15, -(10**14), "57971-01-01"]
    emit(feed, 1, samples=[{"user": 1, "at": at, "reason": "future"} for at in odd])
    cells = "[...document.querySelectorAll('#samples {} td')].map(c => c.textContent)"
    with Server(feed, port=0) as server:
        browser.open(server.address)
        browser.wait(f"{TILE} === '200'")
        heads = "[...document.querySelectorAll('#samples-head th')].map(c => c.textContent)"
        assert browser.value(heads) == ["reason", "watermark", "user", "place", "more", "at"]
        first = browser.value(cells.format("tr:last-child"))
        assert first[:4] == ["late", "2026-01-01 00:00:00", "1795354393480", '{"lat": 1.5}']
        assert first[4:] == ["x" * 300 + "…", "2026-01-01 00:00:00.005"]
        at = browser.value("[...document.querySelectorAll('#samples td:last-child')].slice(0, 4)"
                           ".map(c => c.textContent)")  # fmt: skip
        years = ["57971-01-01", "-1199-02-15 14:13:20", "9000000000000000 ms", "57971-02-25"]
        assert [text[: len(year)] for text, year in zip(at, years, strict=True)] == years
        pressed = (
            "[...document.querySelectorAll('#keys [aria-pressed=true]')].map(b => b.innerText)"
        )
        legend = "[...document.querySelectorAll('#windows-chart .u-label')].map(l => l.innerText)"
        browser.wait(f"{pressed}.length === 3")
        assert browser.value(legend) == ["Time (UTC)", "ann", "bob", "cyd"]
        browser.value("document.querySelector('#keys button').click()")
        assert browser.value(pressed) == ["bob", "cyd"]
        assert browser.value(legend) == ["Time (UTC)", "bob", "cyd"]
        lengths = {0.25: "250 ms", 1.54: "1.5 s", 65: "1 min 5 s", 7863.26: "2 h 11 min"}
        for seconds, text in {**lengths, 1e6: "11 d 14 h"}.items():
            assert browser.value(f"Shown.duration({seconds})") == text
        gaps = browser.value("Shown.withGaps([0, 10, 40], [[1, null, 3]], 15, 10)")
        assert gaps == [[0, 10, 15, 40], [1, None, None, 3]]
        quiet = browser.value("Shown.broken([0, 1, 2, 3, 900], [[1, 1, 1, 1, 2]])")
        assert quiet[1] == [1, 1, 1, 1, None, 2]
        afternoon = START / 1000 + 15 * 3600
        assert browser.value(f"Shown.dated([{afternoon}, {afternoon + 3600}], 3600)") == [
            "15:00\n2026-01-01", "16:00"
        ]  # fmt: skip
        assert browser.errors == []


@pytest.mark.parametrize("width", [360, 900, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_chart_stands_alone_in_its_row(
    feed: Feed, browser: Browser, width: int, scheme: str
) -> None:
    emit(feed, 0)
    emit(feed, 1)
    with Server(feed, port=0) as server:
        media = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.call("Emulation.setEmulatedMedia", features=media)
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", **metrics)
        browser.open(server.address)
        browser.wait(f"{TILE} === '200'")
        tops = "[...document.querySelectorAll('#charts .chart')].map(c => c.offsetTop)"
        offsets = browser.value(tops)
        rows = [offsets.count(top) for top in sorted(set(offsets))]
        assert rows == {360: [1] * 4, 900: [2, 2], 1600: [4]}[width]
        assert browser.value("document.documentElement.scrollWidth") <= width


def test_a_phone_needs_no_scrolling_sideways(feed: Feed, browser: Browser) -> None:
    emit(feed, 0)
    emit(feed, 1)
    with Server(feed, port=0) as server:
        metrics = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
        browser.call("Emulation.setDeviceMetricsOverride", **metrics)
        browser.open(server.address)
        browser.wait(f"{TILE} === '200'")
        assert browser.value("document.documentElement.scrollWidth") <= 360
