"""Tests of queries over Spark Connect, which run on a server and are watched by a client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from tests.services.connect import ConnectServer
from tests.services.kafka import Kafka
from tests.services.postgres import Postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PIPELINE = """
checkpoint = "${out}/checkpoints"

[tables.messages]
connector = "json"
path = "${out}/in"
time = "at"

[tables.messages.columns]
k = "string"
at = "timestamp"
v = "bigint"

[tables.sums]
connector = "parquet"
path = "${out}/sums"

[queries.tens]
from = "messages"
key = "k"
windows = { tumbling = "10 seconds" }
into = "sums"
agg = { n = "count(*)" }
"""


def run(server: ConnectServer, *command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SPARK_REMOTE": server.url}
    done = subprocess.run(
        list(map(str, command)),
        env=environment, capture_output=True, text=True, timeout=560,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:] + server.log.read_text()[-2000:]
    return done


def run_client(server: ConnectServer, folder: Path, scenarios: str, *more: str) -> dict[str, Any]:
    """Run a client, and return its observations by scenario."""
    program = Path(__file__).with_name("connected.py")
    done = run(server, sys.executable, program, scenarios, folder, *more)
    observations: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return observations


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the client that needs only Spark's server."""
    return tmp_path_factory.mktemp("client")


@pytest.fixture(scope="module")
def observations(connect: ConnectServer, folder: Path) -> dict[str, Any]:
    """Return the observations of that client by scenario."""
    return run_client(connect, folder, "windows,others,refused")


def check_windows(seen: dict[str, Any]) -> None:
    counts = {"seen": 33, "counted": 31, "null_key": 1, "late": 1}
    assert seen["idle"] == [True, True]
    assert seen["before"] == [counts, {"full": 3}, True, "2026-01-01 00:01:00+00:00"]
    assert not seen["active"]
    assert seen["shown"] == [
        [0, {"results": [2, 2], "rejected": [1, 1]}],
        [1, {"results": [1, 1], "rejected": [1, 1]}],
    ]
    assert seen["ended"]
    assert seen["after"] == [{**counts, "seen": 34, "counted": 32}, {"full": 1}]
    assert seen["rejected"] == 2
    assert seen["left"] == []


def test_windows_run_there_and_are_seen_here(observations: dict[str, Any], folder: Path) -> None:
    check_windows(observations["windows"])
    with duckdb.connect(str(folder / "windows" / "new" / "out.duckdb")) as connection:
        assert connection.execute("SELECT n FROM windows ORDER BY window_start").fetchall() == [
            (10,), (10,), (10,), (1,),
        ]  # fmt: skip
        assert connection.execute("SELECT count(*) FROM history").fetchall() == [(4,)]


def test_the_server_writes_to_postgres(
    connect: ConnectServer, postgres: Postgres, tmp_path: Path
) -> None:
    dsn = postgres.database()
    check_windows(run_client(connect, tmp_path, "windows", dsn)["windows"])
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT n FROM windows ORDER BY window_start").fetchall()
        assert rows == [(10,), (10,), (10,), (1,)]


def test_a_topic_of_windows_comes_of_a_topic(
    connect: ConnectServer, kafka: Kafka, tmp_path: Path
) -> None:
    inlet, outlet = kafka.topic(), kafka.topic(1)
    lines = [
        json.dumps({"k": "a", "at": f"2026-01-01 00:00:{s:02d}", "v": s}) for s in range(0, 30, 2)
    ]
    kafka.send(inlet, [(s % 2, None, line) for s, line in enumerate([*lines, "no JSON"])])
    topics = f"{kafka.servers},{inlet},{outlet}"
    observations = run_client(connect, tmp_path, "topics", topics)["topics"]
    assert observations["counts"] == {"seen": 16, "counted": 15, "malformed": 1}
    assert observations["rejected"] == [["no JSON", "malformed"]]
    messages = kafka.read(outlet)
    values = [json.loads(m.value()) for m in messages]
    assert [(v["window_start"], v["n"], v["total"]) for v in values] == [
        ("2026-01-01T00:00:00.000000Z", 5, 20),
        ("2026-01-01T00:00:10.000000Z", 5, 70),
    ]


def test_joins_that_feed_windows_and_agents_run_too(observations: dict[str, Any]) -> None:
    assert observations["others"] == {
        "pairs": [10, 10],
        "join": {"seen": 60, "counted": 60},
        "views": [30],
        "taken": {"seen": 30, "taken": 30},
    }


def test_what_cannot_be_there_is_refused(observations: dict[str, Any]) -> None:
    errors = observations["refused"]
    assert errors["locked"].startswith("OptionError: results=<__main__.Locked")
    assert "can't be sent to the server of Spark Connect" in errors["locked"]
    error = "BatchError: ValueError: no batch 0 today (batch 0, the sink of results, "
    assert errors["failing"].startswith(error)
    assert "connected.py" in errors["failing"]
    assert errors["delta"].startswith("SettingError: to_delta() needs Delta's SQL")
    assert (
        "SpecChangedError: the checkpoint was written by a query that doesn't use"
        in (errors["ticks"])
    )


def test_a_pipeline_runs_there(connect: ConnectServer, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [{"k": "a", "at": f"2026-01-01 00:00:{s:02d}", "v": s} for s in range(30)]
    (tmp_path / "in" / "0.json").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "tens.toml").write_text(PIPELINE)
    muntin = Path(sys.executable).with_name("muntin")
    settings = ["--set", f"out={tmp_path}", "--host", "spark"]
    run(connect, muntin, "run", tmp_path / "tens.toml", *settings, "--until-quiet")
    sums = duckdb.sql(f"SELECT sum(n)::INT FROM '{tmp_path}/sums/*/*.parquet'").fetchall()
    assert sums == [(20,)]
