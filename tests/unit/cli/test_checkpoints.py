"""Tests of `muntin inspect` and `muntin why` on checkpoints of the local host, without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer

import muntin as mt
from muntin.cli.inspect import inspect
from muntin.cli.why import why

_START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a command on a local checkpoint started Spark")

    monkeypatch.setattr("muntin.cli.checkpoints.open_session", refuse)


def _run(folder: Path, query: Any) -> None:
    assert query.start(checkpoint=folder, available_now=True).await_end(60)


def _feed(folder: Path, seconds: list[int], name: str = "messages") -> mt.sources.source.Source:
    rows = pl.DataFrame(
        {
            "k": ["ab"[n % 2] for n in seconds],
            "at": [_START + timedelta(seconds=n) for n in seconds],
        }
    )
    rows.write_parquet(folder / f"{name}.parquet")
    return mt.files(f"{folder}/{name}.parquet")


def _inspect(capsys: pytest.CaptureFixture[str], *args: Any, **options: Any) -> Any:
    inspect(*args, as_json=True, **{"key": None, "table": None, "batch": None, **options})
    return json.loads(capsys.readouterr().out)


def _explain(capsys: pytest.CaptureFixture[str], *args: Any, **options: Any) -> str:
    why(*args, **{"table": None, **options})
    return " ".join(capsys.readouterr().out.split())


def test_windows_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed, folder = _feed(tmp_path, [1, 2, 3, 15]), tmp_path / "checkpoint"
    windows = mt.windowed(feed, key="k", time="at", shards=2).tumbling("10 seconds")
    _run(folder, windows.keep("1 day").agg(n=mt.count()))
    report = _inspect(capsys, folder, key=["b"])
    assert report["kind"] == "windows"
    assert report["watermark"] == "2026-01-01 00:00:15"
    assert report["counts"] == {"seen": 4, "counted": 4}
    assert [row["messages"] for row in report["key"]] == [2, 1]
    assert sum(table["bytes"] for table in report["tables"]) == sum(
        shard["bytes"] for shard in report["shards"]
    )
    assert report["windows"]["newest"][1] == "2026-01-01 00:00:20"
    inspect(folder, key=None, table=None, batch=None)
    assert "batches 0 to 0 can be read" in capsys.readouterr().out
    explanation = _explain(capsys, folder, "2026-01-01 00:00:12", ["b"])
    assert "holds 1 message" in explanation
    assert "1970" not in explanation


def test_a_key_forges_no_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = "a\x1b[31m\nERROR b\u2028c"
    rows = pl.DataFrame({"k": [key], "at": [_START]})
    rows.write_parquet(tmp_path / "messages.parquet")
    feed, folder = mt.files(f"{tmp_path}/messages.parquet"), tmp_path / "checkpoint"
    _run(folder, mt.windowed(feed, key="k", time="at").tumbling("10 seconds").agg(n=mt.count()))
    for at in ("2026-01-01 00:00:02", None):
        why(folder, at, [key], None)
    inspect(folder, key=[key], table=None, batch=None)
    lines = capsys.readouterr().out
    assert not {"\x1b", "\u2028"} & {*lines}
    assert "\nERROR" not in lines


def test_joins_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "checkpoint"
    left, right = (_feed(tmp_path, at, name) for at, name in (([1, 2], "left"), ([3], "right")))
    sides = (mt.windowed(side, time="at") for side in (left, right))
    _run(folder, mt.join(*sides, on="k", within="1 minute"))
    report = _inspect(capsys, folder, key=["b"])
    assert report["kind"] == "join"
    assert [(row["side"], row["k"]) for row in report["key"]] == [("left", "b"), ("right", "b")]
    assert "2026-01-01 00:00:03" in report["watermark"]["right"]
    assert "partner" in _explain(capsys, folder, "2026-01-01 00:00:01", ["b"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"operator": 3}, "operator=3 isn't one of the 1 operators"),
        ({"batch": 7}, "batch=7 isn't kept: there is batch 0"),
        ({"table": "views"}, "--table='views' isn't in a checkpoint of windows"),
        ({"key": ["a", "b"]}, "key"),
    ],
)
def test_what_a_checkpoint_does_not_hold_is_refused(
    options: dict[str, Any], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = mt.windowed(_feed(tmp_path, [1]), key="k", time="at").tumbling("10 seconds")
    _run(tmp_path / "checkpoint", feed.agg(n=mt.count()))
    with pytest.raises(typer.Exit):
        _inspect(capsys, tmp_path / "checkpoint", **options)
    assert problem in " ".join(capsys.readouterr().err.split())
