"""Tests of sessions that conditions cut on the local host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import muntin as mt
from muntin.model.errors import OptionError, SpecChangedError

EVENTS = pl.DataFrame(
    {
        "user": ["ann"] * 6,
        "minute": [0, 4, 9, 12, 20, 25],
        "kind": ["login", "click", "logout", "click", "login", None],
        "seen": [{"page": page} for page in ("a", "a", "b", "b", "b", None)],
    }
).with_columns(pl.datetime(2026, 1, 1, 9, pl.col("minute")).alias("at"))


def list_sessions(**options: Any) -> list[tuple[int, int, int]]:
    """Return the minutes of the bounds of sessions, and their numbers of messages."""
    windows = mt.windowed(EVENTS, key="user", time="at")
    rows = windows.session("30 minutes", **options).agg(n=mt.count()).results
    return rows.select(pl.col("window_start", "window_end").dt.minute(), "n").rows()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"end": "Kind = 'logout'"}, [(0, 9, 3), (12, 55, 3)]),
        ({"end": pl.col("kind") == "logout"}, [(0, 9, 3), (12, 55, 3)]),
        ({"start": "kind = 'login'"}, [(0, 20, 4), (20, 55, 2)]),
        ({"same": "seen.page"}, [(0, 9, 2), (9, 25, 3), (25, 55, 1)]),
        ({"same": pl.col("minute") // 10, "longest": "30 minutes"},
         [(0, 12, 3), (12, 20, 1), (20, 50, 2)]),
    ],
)  # fmt: skip
def test_conditions_cut_sessions(options: dict[str, Any], expected: list[Any]) -> None:
    assert list_sessions(**options) == expected


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"end": "kind"}, "end='kind' has type String, and a condition is true or false"),
        ({"start": "nowhere = 1"}, "nowhere, which isn't a column"),
        ({"same": "nowhere"}, "same='nowhere' isn't a column"),
        ({"same": "seen"}, "same='seen' has type Struct"),
        ({"end": 5}, "end=5 isn't a condition"),
    ],
)
def test_invalid_conditions_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError) as refusal:
        list_sessions(**options)
    assert problem in str(refusal.value)


def test_a_checkpoint_stores_the_conditions(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    EVENTS.drop("seen").write_parquet(folder / "one.parquet")

    def run(**options: Any) -> pl.DataFrame:
        results = mt.to_memory()
        windows = mt.windowed(mt.files(f"{folder}/*.parquet"), key="user", time="at")
        visits = windows.session("30 minutes", **options).agg(n=mt.count())
        checkpoint = str(tmp_path / "checkpoint")
        query = visits.start(checkpoint=checkpoint, results=results, available_now=True)
        assert query.await_end(30)
        return results.frame()

    assert run(end="kind = 'logout'")["n"].to_list() == [3]
    assert run(end="kind = 'logout'").is_empty()
    with pytest.raises(SpecChangedError, match="end kind = 'login'"):
        run(end="kind = 'login'")
