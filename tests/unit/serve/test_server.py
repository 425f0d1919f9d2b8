"""Tests of the page's server, over a socket."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from itertools import islice

import pytest

import muntin as mt
from muntin.serve import Feed, Subject
from muntin.serve.app import STATIC, Server
from muntin.web.server import create_protocol

LOOK = {"X-Muntin": "look"}


@pytest.fixture
def feed() -> Feed:
    feed_of_visits = Feed()
    feed_of_visits.add(Subject("visits"))
    return feed_of_visits


def request(server: Server, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def read_events(response: http.client.HTTPResponse, count: int) -> list[tuple[str, dict]]:
    events = []
    while len(events) < count:
        line = response.readline().decode().strip()
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
            data = response.readline().decode().strip().removeprefix("data: ")
            events.append((kind, json.loads(data)))
    return events


def test_a_page_gets_a_snapshot_and_then_what_happens(feed: Feed):
    with Server(feed, port=0) as server:
        response = request(server, "/events")
        assert response.headers["Content-Type"].startswith("text/event-stream")
        ((kind, snapshot),) = read_events(response, 1)
        assert (kind, snapshot["queries"][0]["name"]) == ("snapshot", "visits")
        feed.add_batch("visits", 0, at=1, numbers={"seen": 7})
        feed.mark_ended("visits", "disk full")
        (batch, ended) = read_events(response, 2)
        assert batch[1]["numbers"] == {"seen": 7}
        assert ended == ("ended", {"query": "visits", "state": "failed", "failure": "disk full"})
        response.close()


def test_everything_is_there_as_json_and_nothing_comes_from_elsewhere(feed: Feed):
    with Server(feed, port=0) as server:
        assert json.loads(request(server, "/state").read())["queries"][0]["name"] == "visits"
        page = request(server, "/")
        assert "default-src 'self'" in page.headers["Content-Security-Policy"]
        text = page.read().decode()
        linked = re.findall(r'(?:src|href)="(/static/[^"]+)"', text)
        assert len(linked) == 5
        for path in (*linked, "/static/index.html"):
            file = request(server, path)
            assert file.status == 200
            # Otherwise another page could frame this one under its name as a file.
            assert "frame-ancestors 'none'" in file.headers["Content-Security-Policy"]
        assert "http" not in re.sub(r'href="data:,"', "", text)
    scripts = "".join((STATIC / name).read_text() for name in ("page.js", "shown.js", "page.css"))
    assert "//" not in re.sub(r"// .*", "", scripts)


def test_a_token_is_asked_for_and_remembered(feed: Feed):
    with Server(feed, port=0, token="open sesame") as server:
        for path in ("/", "/state", "/events", "/state?token=wrong"):
            assert request(server, path).status == 403
        page = request(server, "/?token=open%20sesame")
        assert page.status == 200
        cookie = page.headers["Set-Cookie"].partition(";")[0]
        assert request(server, "/state", Cookie=cookie).status == 200


def test_a_foreign_name_that_points_here_is_refused(feed: Feed):
    with Server(feed, port=0) as server:
        assert request(server, "/state", Host="evil.example").status == 403
        assert request(server, "/state", Host="localhost").status == 200


def test_others_may_not_look_without_a_token(feed: Feed):
    with pytest.raises(mt.OptionError, match="lets others look without a token; give --token new"):
        Server(feed, host="0.0.0.0", port=0)
    with Server(feed, host="0.0.0.0", port=0, token="new") as server:
        assert server.token
        assert server.token in server.address


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_an_empty_token_is_refused_for_everybody_knows_it(feed: Feed, host: str):
    with pytest.raises(mt.OptionError, match="token='' is empty, so that everybody knows it"):
        Server(feed, host=host, port=0, token="")


def test_the_address_holds_the_token_as_addresses_do(feed: Feed):
    with Server(feed, port=0, token="a&b=c#d e") as server:
        path = server.address.removeprefix(f"http://127.0.0.1:{server.port}")
        assert path == "/?token=a%26b%3Dc%23d%20e"
        assert request(server, path).status == 200


def test_a_port_that_is_taken_is_named(feed: Feed):
    with (
        Server(feed, port=0) as server,
        pytest.raises(mt.OptionError, match="can't be listened on"),
    ):
        Server(feed, port=server.port)


def test_the_state_is_looked_into(feed: Feed):
    keys = []

    def look(key):
        keys.append(key)
        if key == ["x"]:
            raise ValueError("no such key\nand a traceback")
        return {"batch": 3, "tables": []}

    feed.add(Subject("orders"), look)
    with Server(feed, port=0) as server:
        both = request(server, "/held?query=orders&key=a&key=b", **LOOK)
        assert json.loads(both.read())["batch"] == 3
        assert keys == [["a", "b"]]
        refused = request(server, "/held?query=orders&key=x", **LOOK)
        assert (refused.status, json.loads(refused.read())) == (400, {"error": "no such key"})
        for query in ("visits", "nobody"):
            refused = request(server, f"/held?query={query}", **LOOK)
            assert refused.status == 400
            assert "has no state to look into" in json.loads(refused.read())["error"]
        queries = json.loads(request(server, "/state").read())["queries"]
        assert {query["name"]: query["looks"] for query in queries} == {
            "visits": False,
            "orders": True,
        }


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**LOOK, "Sec-Fetch-Site": "cross-site"},
        {**LOOK, "Sec-Fetch-Site": "same-site"},
        {**LOOK, "Origin": "https://evil.example"},
        {**LOOK, "Origin": "null"},
    ],
)
@pytest.mark.parametrize("token", [None, "sesame"])
def test_a_look_is_not_had_for_another_site(feed: Feed, headers: dict, token: str | None):
    looked = []
    feed.add(Subject("orders"), lambda key: looked.append(key) or {})
    with Server(feed, port=0, token=token) as server:
        assert request(server, "/held?query=orders&token=sesame", **headers).status == 403
        same_origin = {
            **LOOK,
            "Sec-Fetch-Site": "same-origin",
            "Origin": f"http://127.0.0.1:{server.port}",
        }
        assert looked == []
        assert request(server, "/held?query=orders&token=sesame", **same_origin).status == 200
        assert looked == [[]]


def test_another_site_reads_nothing_and_may_lead_here(feed: Feed):
    with Server(feed, port=0) as server:
        for path in ("/state", "/events"):
            assert request(server, path, **{"Sec-Fetch-Site": "cross-site"}).status == 403
        assert request(server, "/", **{"Sec-Fetch-Site": "cross-site"}).status == 200


def test_looks_queue_up_and_the_page_does_not_wait_for_them(feed: Feed):
    gate, running = threading.Event(), []

    def look(key):
        running.append(key)
        assert len(running) == 1
        gate.wait(30)
        running.pop()
        return {"batch": 1}

    feed.add(Subject("orders"), look)
    with Server(feed, port=0) as server, ThreadPoolExecutor(20) as many:
        answers = [many.submit(request, server, "/held?query=orders", **LOOK) for _ in range(20)]
        refused = [answer.result() for answer in islice(as_completed(answers), 16)]
        assert {(each.status, each.headers["Retry-After"]) for each in refused} == {(429, "2")}
        for path in ("/", "/state", "/static/page.js"):
            assert request(server, path).status == 200
        gate.set()
        assert sorted(answer.result().status for answer in answers) == [200] * 4 + [429] * 16
        assert request(server, "/held?query=orders", **LOOK).status == 200


@pytest.mark.parametrize(
    ("start", "headers", "status"),
    [
        ("GET /state", b"X: " + b"a" * 1_000_000, 400),
        ("GET /state", b"Host: evil.example", 400),
        ("GET /state", b'Cookie: a="\\377\xff; muntin-token=\xff', 403),
        ("GET /state", b"Authorization: Bearer \xff\xfe", 403),
        ("GET /state?token=%ed%a0%80", b"X: a", 403),
        ("GET /" + "a" * 60_000, b"X: a", 404),
        ("GET /static/../app.py", b"X: a", 404),
        ("GET /static/%2e%2e/app.py", b"X: a", 404),
        ("GET /static//etc/passwd", b"X: a", 404),
        ("GET /static/a%00b", b"X: a", 404),
        ("GET /static/" + "a" * 5000, b"X: a", 404),
        ("PUT /state", b"Content-Length: 99999999999", 405),
    ],
)
def test_a_hostile_request_is_refused(feed: Feed, start: str, headers: bytes, status: int):
    with Server(feed, port=0, token="sesame") as server:
        template = b"%b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%b\r\n\r\n"
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        with connection, suppress(ConnectionError):
            connection.sendall(template % (start.encode(), headers))
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 %d" % status)
        assert request(server, "/state?token=sesame").status == 200


def open_half(port: int, text: bytes = b"GET / HTTP/1.1\r\nHost: 127") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(text)
    return connection


def test_connections_that_ask_nothing_end(feed: Feed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("muntin.web.server.create_protocol", lambda: create_protocol(patience=0.3))
    again = b"GET /state HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    body = b"POST /state HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nab"
    with Server(feed, port=0) as server:
        for text in (b"", b"GET / HTTP/1.1\r\nHost: 127", again, body):
            with open_half(server.port, text) as connection, suppress(ConnectionError):
                if text == again:
                    assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
                    connection.sendall(b"GET /")
                while connection.recv(1 << 16):
                    pass
        stream = request(server, "/events")
        read_events(stream, 1)
        time.sleep(0.6)
        feed.mark_ended("visits")
        assert read_events(stream, 1)[0][0] == "ended"
        stream.close()


def test_many_half_open_connections_keep_nobody_out(feed: Feed):
    with Server(feed, port=0) as server:
        connections = [open_half(server.port) for _ in range(300)]
        assert request(server, "/").status == 200
        ended = 0
        for connection in connections[:200]:
            with suppress(ConnectionError):
                assert connection.recv(1) == b""
            ended += 1
        assert ended == 200
        for connection in connections:
            connection.close()


def test_closing_with_pages_open_says_nothing(feed: Feed, capfd: pytest.CaptureFixture[str]):
    gate = threading.Event()
    feed.add(Subject("orders"), lambda key: gate.wait(30) or {})
    with Server(feed, port=0) as server:
        streams = [request(server, "/events") for _ in range(3)]
        for stream in streams:
            read_events(stream, 1)
        with ThreadPoolExecutor(2) as many:
            looks = [many.submit(request, server, "/held?query=orders", **LOOK) for _ in range(2)]
            time.sleep(0.3)
            began = time.monotonic()
            server.close()
            assert time.monotonic() - began < 4
            assert [look.result().status for look in looks] == [503, 503]
        for stream in streams:
            assert stream.read().strip() in (b"", b": alive")
    gate.set()
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_text_that_is_no_text_and_numbers_that_are_none_end_no_answer(feed: Feed):
    odd = {"key": "a\udc80\x00", "at": 9 * 10**15, "n": "NaN"}
    feed.add(Subject("orders"), lambda key: {"key": [odd]})
    with Server(feed, port=0) as server:
        stream = request(server, "/events")
        read_events(stream, 1)
        numbers = {"seen": 1, "lag": float("inf"), "rate": float("nan")}
        feed.add_batch("visits", 0, at=1, numbers=numbers, windows=[odd], samples=[odd])
        (batch,) = read_events(stream, 1)
        stream.close()
        (state, _) = json.loads(request(server, "/state").read())["queries"]
        assert batch[1]["samples"] == state["samples"] == state["windows"] == [odd]
        assert state["batches"][0]["numbers"] == {"seen": 1, "lag": None, "rate": None}
        assert json.loads(request(server, "/held?query=orders", **LOOK).read()) == {"key": [odd]}
