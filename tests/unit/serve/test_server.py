"""The page's server, asked over a socket."""

from __future__ import annotations

import http.client
import json
import re

import pytest

import muntin as mt
from muntin.serve import Feed, Subject
from muntin.serve.app import STATIC
from muntin.serve.server import Server


@pytest.fixture
def feed() -> Feed:
    made = Feed()
    made.add(Subject("visits"))
    return made


def asked(server: Server, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


def events(response: http.client.HTTPResponse, count: int) -> list[tuple[str, dict]]:
    found = []
    while len(found) < count:
        line = response.readline().decode().strip()
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
            data = response.readline().decode().strip().removeprefix("data: ")
            found.append((kind, json.loads(data)))
    return found


def test_a_page_gets_a_snapshot_and_then_what_happens(feed: Feed):
    with Server(feed, port=0) as server:
        response = asked(server, "/events")
        assert response.headers["Content-Type"].startswith("text/event-stream")
        ((kind, snapshot),) = events(response, 1)
        assert (kind, snapshot["queries"][0]["name"]) == ("snapshot", "visits")
        feed.batch("visits", 0, at=1, numbers={"seen": 7})
        feed.end("visits", "disk full")
        (batch, ended) = events(response, 2)
        assert batch[1]["numbers"] == {"seen": 7}
        assert ended == ("ended", {"query": "visits", "state": "failed", "failure": "disk full"})
        response.close()


def test_everything_is_there_as_json_and_nothing_comes_from_elsewhere(feed: Feed):
    with Server(feed, port=0) as server:
        assert json.loads(asked(server, "/state").read())["queries"][0]["name"] == "visits"
        page = asked(server, "/")
        assert "default-src 'self'" in page.headers["Content-Security-Policy"]
        text = page.read().decode()
        linked = re.findall(r'(?:src|href)="(/static/[^"]+)"', text)
        assert len(linked) == 4
        for path in linked:
            assert asked(server, path).status == 200
        assert "http" not in re.sub(r'href="data:,"', "", text)
    ours = (STATIC / "page.js").read_text() + (STATIC / "page.css").read_text()
    assert "//" not in re.sub(r"// .*", "", ours)


def test_a_token_is_asked_for_and_remembered(feed: Feed):
    with Server(feed, port=0, token="open sesame") as server:
        for path in ("/", "/state", "/events", "/state?token=wrong"):
            assert asked(server, path).status == 403
        page = asked(server, "/?token=open%20sesame")
        assert page.status == 200
        cookie = page.headers["Set-Cookie"].partition(";")[0]
        assert asked(server, "/state", Cookie=cookie).status == 200


def test_a_foreign_name_that_points_here_is_refused(feed: Feed):
    with Server(feed, port=0) as server:
        assert asked(server, "/state", Host="evil.example").status == 403
        assert asked(server, "/state", Host="localhost").status == 200


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
        asked_for = server.address.removeprefix(f"http://127.0.0.1:{server.port}")
        assert asked_for == "/?token=a%26b%3Dc%23d%20e"
        assert asked(server, asked_for).status == 200


def test_a_port_that_is_taken_is_named(feed: Feed):
    with (
        Server(feed, port=0) as server,
        pytest.raises(mt.OptionError, match="can't be listened on"),
    ):
        Server(feed, port=server.port)


def test_the_state_is_looked_into(feed: Feed):
    asked_for = []

    def look(key):
        asked_for.append(key)
        if key == ["x"]:
            raise ValueError("no such key\nand a traceback")
        return {"batch": 3, "tables": []}

    feed.add(Subject("orders"), look)
    with Server(feed, port=0) as server:
        assert json.loads(asked(server, "/held?query=orders&key=a&key=b").read())["batch"] == 3
        assert asked_for == [["a", "b"]]
        refused = asked(server, "/held?query=orders&key=x")
        assert (refused.status, json.loads(refused.read())) == (400, {"error": "no such key"})
        for query in ("visits", "nobody"):
            refused = asked(server, f"/held?query={query}")
            assert refused.status == 400
            assert "has no state to look into" in json.loads(refused.read())["error"]
        known = json.loads(asked(server, "/state").read())["queries"]
        assert {query["name"]: query["looks"] for query in known} == {
            "visits": False,
            "orders": True,
        }
