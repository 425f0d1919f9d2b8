"""Tests that a driver that is killed at any time loses nothing and emits nothing twice."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from tests.spark.drivers import Victims, fill, kill, kill_again_and_again
from tests.spark.feed import Feed, at, emitted, rows

KILLS, FILES, MESSAGES, IN_TIME = 3, 14, 40, 8
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def victims() -> Iterator[Victims]:
    """Return a list of drivers, which are killed at the end of the test."""
    drivers: Victims = []
    yield drivers
    for victim in drivers:
        kill(victim)


@pytest.mark.slow
def test_kills(tmp_path: Path, victims: Victims) -> None:
    chance = random.Random(20260101)
    feed = Feed(tmp_path / "source")
    too_late = fill(feed, chance, FILES, MESSAGES, IN_TIME)
    kill_again_and_again("windows", tmp_path, victims, chance, KILLS)

    out = tmp_path / "out.duckdb"
    assert emitted(out) == feed.windows(30, 10, but=too_late)
    gaps = """SELECT key, window_start, list(revision ORDER BY revision) AS revisions FROM history
              GROUP BY ALL HAVING revisions != range(len(revisions)::BIGINT)"""
    assert rows(out, gaps) == []
    newest = """SELECT * EXCLUDE batch FROM history
                QUALIFY revision = max(revision) OVER (PARTITION BY key, window_start)"""
    assert rows(out, f"({newest}) EXCEPT SELECT * FROM windows") == []
    files = f"{tmp_path}/rejected/*/*.parquet"
    rejected = f"SELECT id, reason FROM read_parquet('{files}') ORDER BY id"
    assert duckdb.sql(rejected).fetchall() == [(number, "late") for number in too_late]
    progress = json.loads((tmp_path / "figures.json").read_text())
    counted = feed.ids - len(too_late)
    assert progress["counts"] == {"seen": feed.ids, "counted": counted, "late": len(too_late)}
    assert progress["adds_up"]


PAIRS = """
    SELECT l.id, r.id FROM (FROM taken WHERE side = 'left') AS l
    FULL JOIN (FROM taken WHERE side = 'right') AS r
      ON l.key = r.key
     AND r."at" BETWEEN l."at" - INTERVAL 5 SECOND AND l."at" + INTERVAL 2 SECOND
    ORDER BY ALL
"""


@pytest.mark.long
def test_kills_of_a_join(tmp_path: Path, victims: Victims) -> None:
    chance = random.Random(20260103)
    too_late = {}
    for side in ("left", "right"):
        feed = Feed(tmp_path / side)
        too_late[side] = fill(feed, chance, FILES, MESSAGES, IN_TIME)
        # This closes everything before, so all unmatched messages are emitted.
        feed.add(("z", at(60 * (FILES + 100)), 0))
    kill_again_and_again("join", tmp_path, victims, chance, KILLS)

    pairs, rejected = (f"read_parquet('{tmp_path}/{n}/*/*.parquet')" for n in ("out", "rejected"))
    database = duckdb.connect()
    for side, late in too_late.items():
        rejected_rows = database.sql(
            f"SELECT id, reason FROM {rejected} WHERE side = '{side}' ORDER BY id"
        )
        assert rejected_rows.fetchall() == [(number, "late") for number in late]
    files = " UNION ALL ".join(
        f"SELECT '{side}' AS side, * FROM read_parquet('{tmp_path}/{side}/*.parquet')"
        for side in too_late
    )
    taken = f"SELECT f.* FROM ({files}) AS f ANTI JOIN {rejected} AS r USING (side, id)"
    database.sql(f"CREATE TABLE taken AS {taken}")
    wanted = database.sql(PAIRS).fetchall()
    assert all(None in column for column in zip(*wanted, strict=True))
    assert database.sql(f"SELECT id, id_right FROM {pairs} ORDER BY ALL").fetchall() == wanted
    progress = json.loads((tmp_path / "figures.json").read_text())
    assert progress["counts"]["seen"] == 2 * (FILES * MESSAGES + 1)
    assert progress["adds_up"]


OVER_WINDOWS = """
    SELECT key, (start + 30_000_000) // 120_000_000 * 120_000_000 AS outer_start,
           count(*), sum(n), max(total)
    FROM inner_windows GROUP BY ALL ORDER BY ALL
"""


@pytest.mark.long
def test_kills_of_a_chain(tmp_path: Path, victims: Victims) -> None:
    """Both operators repeat the batch that was killed: each window counts once."""
    chance = random.Random(20260104)
    feed = Feed(tmp_path / "source")
    too_late = fill(feed, chance, FILES, MESSAGES, IN_TIME)
    # It closes all windows but its own.
    feed.add(("z", at(60 * (FILES + 100)), 0))
    kill_again_and_again("chain", tmp_path, victims, chance, KILLS)

    inner = [window for window in feed.windows(30, 10, but=too_late) if window[0] != "z"]
    database = duckdb.connect()
    database.execute("CREATE TABLE inner_windows (key text, start long, n long, total long)")
    database.executemany("INSERT INTO inner_windows VALUES (?, ?, ?, ?)", [w[:4] for w in inner])
    wanted = database.sql(OVER_WINDOWS).fetchall()
    newest = "SELECT key, epoch_us(window_start), windows, n, most FROM windows ORDER BY ALL"
    assert rows(tmp_path / "out.duckdb", newest) == wanted != []
    progress = json.loads((tmp_path / "figures.json").read_text())
    assert progress["counts"] == {"seen": len(inner), "counted": len(inner)}
    late = len(too_late)
    assert progress["inner"] == {"seen": feed.ids, "counted": feed.ids - late, "late": late}
    assert progress["adds_up"]
    files = f"{tmp_path}/rejected/*/*.parquet"
    rejected = f"SELECT id, reason FROM read_parquet('{files}') ORDER BY id"
    assert duckdb.sql(rejected).fetchall() == [(number, "late") for number in too_late]
