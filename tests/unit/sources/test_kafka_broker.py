"""Tests of starting positions, and of a broker that isn't there."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.services.machine import free_port

from muntin.model.errors import OptionError, SourceError
from muntin.sources import kafka_broker
from muntin.sources.kafka_broker import refuse_unreachable, starting_of, starting_text_of


def test_where_to_begin() -> None:
    assert starting_of("latest") == "latest"
    assert starting_of("group") == "group"
    assert starting_of('{"t": {"0": 5, "1": -1}}') == {"t": {"0": 5, "1": -1}}
    assert starting_of("1970-01-01T01:00:01+01:00") == 1000
    assert starting_of(starting_text_of(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), ["t"])) == 1000


@pytest.mark.parametrize(
    "starting",
    ["newest", "[1]", '{"t": 5}', '{"t": {"0": "5"}}', '{"t": {"x": 5}}', '{"t": {"0": -3}}',
     "2026-01-31", "2026-01-31T00:00:00", "", "EARLIEST", "5", '{"t": {"0": 1.5}}',
     datetime(2026, 1, 31)],
)  # fmt: skip
def test_what_says_no_beginning_is_refused(starting: str | datetime) -> None:
    with pytest.raises(OptionError, match=r"starting=.* isn't a starting position"):
        starting_text_of(starting, ["orders"])


def test_offsets_of_a_topic_that_is_not_read_are_refused() -> None:
    starting = '{"orders": {"0": 1}, "clicks": {"0": 2}}'
    assert starting_text_of(starting, ["clicks", "orders"]) == starting
    with pytest.raises(OptionError, match="offsets of the topic 'clicks', which isn't read; give"):
        starting_text_of(starting, ["orders"])


def test_a_server_that_isnt_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_broker, "_CONNECTING", 0.3)
    servers = f"127.0.0.1:{free_port()}"
    with pytest.raises(SourceError, match=f"servers='{servers}': {servers}: connection refused"):
        refuse_unreachable(servers)
    with pytest.raises(SourceError, match=r"no-such-host\.invalid:9092"):
        refuse_unreachable("no-such-host.invalid:9092")
