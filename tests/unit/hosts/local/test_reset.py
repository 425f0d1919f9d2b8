"""Tests of setting a local query's watermark back after messages with times far ahead."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from tests.moved_queries import COLUMNS, QUERIES, run

import muntin as mt
from muntin import OptionError

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = 86400


def time_at(second: int) -> datetime:
    return START + timedelta(seconds=second)


class Feed:
    """Folders of files for two sides, with the same messages in both."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = 0

    def add(self, *messages: tuple[str, int]) -> None:
        for side in ("left", "right"):
            rows = {
                "id": range(len(messages)),
                "key": [key for key, _ in messages],
                "at": [time_at(second) for _, second in messages],
                "value": [second % 100 for _, second in messages],
            }
            folder = self.root / side
            folder.mkdir(parents=True, exist_ok=True)
            frame = pl.DataFrame(rows).with_columns(pl.col("at").dt.cast_time_unit("us"))
            frame.write_parquet(folder / f"{self.files:04d}.parquet")
        self.files += 1

    def read(self, name: str) -> Any:
        files = self.root / name / "*.parquet"
        return mt.files(files, columns=COLUMNS, files_per_batch=1)


def list_valid_messages(begin: int, end: int) -> list[tuple[str, int]]:
    return [(f"key {second % 3}", second) for second in range(begin, end, 2)]


def select_newest(out: Path, since: datetime, *, table: str = "results") -> list[Any]:
    """Return the rows without times before ``since`` or in the future."""
    with duckdb.connect(str(out)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        names = [row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall()]
        value_columns = [name for name in names if name not in ("batch", "revision", "emission")]
        times = [name for name in value_columns if name in ("window_start", "at", "at_right")]
        assert times
        selection = ", ".join(f'"{name}"::VARCHAR' for name in value_columns)
        condition = " AND ".join(
            f"(\"{name}\" IS NULL OR \"{name}\" BETWEEN '{since}' AND '{time_at(DAY // 2)}')"
            for name in times
        )
        sql = f"SELECT {selection} FROM {table} WHERE {condition} ORDER BY ALL"
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("name", [name for name in QUERIES if name != "count_triggers"])
def test_windows_after_the_new_watermark_equal_those_of_a_query_without_wrong_times(
    tmp_path: Path, name: str
) -> None:
    feeds = {label: Feed(tmp_path / label) for label in ("wrong", "right")}
    outs = {label: tmp_path / f"{label}.duckdb" for label in feeds}
    for label, feed in feeds.items():
        feed.add(*list_valid_messages(0, 100))
        # The wrong times also end windows of keys with valid messages.
        feed.add(*([("key 1", DAY), ("ahead", DAY + 5)] if label == "wrong" else [("key 1", 99)]))
        run(QUERIES[name](feed.read), tmp_path / f"{label} checkpoint", outs[label])
    reset = mt.reset_watermark(tmp_path / "wrong checkpoint", to=time_at(100))
    assert reset.changes[0]
    assert max(reset.whole_from.values()) <= time_at(160)
    for label, feed in feeds.items():
        for begin in range(100, 300, 50):
            feed.add(*list_valid_messages(begin, begin + 50))
        last = run(QUERIES[name](feed.read), tmp_path / f"{label} checkpoint", outs[label])
        assert last.progress.adds_up()
        assert last.progress.watermark < time_at(300)
    rows = {label: select_newest(outs[label], reset.whole_from[0]) for label in feeds}
    assert rows["wrong"] == rows["right"]
    assert len(rows["right"]) > 10


def build_views(feed: Feed, **late: Any) -> Any:
    windows = mt.windowed(feed.read("left"), key="key", time="at", lateness="5 seconds")
    windows = windows.tumbling("1 minute")
    return (windows.late(**late) if late else windows).agg(n=mt.count())


def read_history(out: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(out)) as connection:
        sql = "SELECT key, epoch(window_start), n, emission, revision FROM history ORDER BY ALL"
        zero = int(START.timestamp())
        rows = connection.execute(sql).fetchall()
        return [(key, int(start) - zero, *rest) for key, start, *rest in rows]


def test_closed_windows_stay_closed_and_later_ones_accept_messages(tmp_path: Path) -> None:
    feed, checkpoint, out = Feed(tmp_path / "in"), tmp_path / "checkpoint", tmp_path / "o.duckdb"
    feed.add(("a", 1), ("a", 20), ("a", 65), ("b", DAY), ("b", DAY + 70))
    feed.add(("a", 90), ("a", 130))
    assert run(build_views(feed), checkpoint, out).progress.counts["late"] == 2
    reset = mt.reset_watermark(checkpoint, to="2026-01-01 00:01:30")
    (change,) = reset.changes[0]
    assert change == ("watermark", *(int(time_at(s).timestamp()) * 10**6 for s in (DAY + 65, 90)))
    assert list(reset.lines()) == [
        "watermark: 2026-01-02 00:01:05+00:00 becomes 2026-01-01 00:01:30+00:00",
        "windows from 2026-01-01 00:02:00+00:00 on are whole; earlier ones that had closed "
        "stay closed",
        "0 windows that had ended still have messages, and emit in full again",
        "2 messages were late so far and stay rejected; send them again to have them counted",
    ]
    assert mt.open_state(checkpoint).watermark == time_at(90)
    # The window of seconds 60 to 119 has emitted, and its message is deleted.
    feed.add(("a", 100), ("a", 130), ("a", 190), ("b", DAY + 75))
    feed.add(("b", 150))
    restarted = run(build_views(feed), checkpoint, out)
    assert restarted.progress.counts == {"seen": 12, "counted": 8, "late": 4}
    assert read_history(out) == [
        ("a", 0, 2, "full", 0),
        ("a", 60, 1, "full", 0),
        # Two batches with two emissions each may have come before.
        ("a", 120, 1, "full", 4),
        ("a", 180, 1, "full", 4),
        ("b", DAY, 1, "full", 0),
    ]
    assert restarted.progress.watermark == time_at(DAY + 70)


def test_windows_that_still_have_messages_emit_again_above_their_revisions(tmp_path: Path) -> None:
    feed, checkpoint, out = Feed(tmp_path / "in"), tmp_path / "checkpoint", tmp_path / "o.duckdb"
    query = build_views(feed, grace="5 minutes", each=True)
    feed.add(("a", 1), ("a", 65), ("a", 130), ("a", 250))
    run(query, checkpoint, out)
    assert mt.reset_watermark(checkpoint, to=time_at(100), dry_run=True).open_again == 1
    assert mt.open_state(checkpoint).watermark == time_at(245)
    assert mt.reset_watermark(checkpoint, to=time_at(100)).open_again == 1
    feed.add(("a", 70), ("a", 135))
    feed.add(("a", 260))
    run(query, checkpoint, out)
    assert read_history(out) == [
        ("a", 0, 1, "full", 0),
        ("a", 60, 1, "full", 0),
        ("a", 60, 2, "late", 3),
        ("a", 120, 1, "full", 0),
        ("a", 120, 2, "full", 2),
    ]


def test_empty_windows_are_filled_once(tmp_path: Path) -> None:
    feed, checkpoint, out = Feed(tmp_path / "in"), tmp_path / "checkpoint", tmp_path / "o.duckdb"
    windows = mt.windowed(feed.read("left"), key="key", time="at", lateness="0 seconds")
    query = windows.tumbling("1 minute").fill("zero", up_to="5 minutes").agg(n=mt.count())
    feed.add(("a", 1))
    feed.add(("b", 250))
    run(query, checkpoint, out)
    mt.reset_watermark(checkpoint, to=time_at(60))
    feed.add(("a", 130))
    feed.add(("a", 310), ("a", 370))
    run(query, checkpoint, out)
    rows = [row for row in read_history(out) if row[0] == "a"]
    assert [row[1:3] for row in rows if row[4] == 0] == [
        (0, 1), (60, 0), (120, 0), (180, 0), (240, 0), (300, 1),
    ]  # fmt: skip
    assert [row[1:] for row in rows if row[4]] == [(120, 1, "full", 4)]


def test_a_reset_that_is_cut_off_changes_nothing(tmp_path: Path) -> None:
    feed, checkpoint, out = Feed(tmp_path / "in"), tmp_path / "checkpoint", tmp_path / "o.duckdb"
    feed.add(("a", 1), ("b", DAY))
    run(QUERIES["chain"](feed.read), checkpoint, out)
    (log,) = checkpoint.glob("*.log")
    size = log.stat().st_size
    old_watermarks = [mt.open_state(checkpoint, operator=n).watermark for n in range(2)]
    mt.reset_watermark(checkpoint, to=time_at(10))
    log_bytes = log.read_bytes()
    assert len(log_bytes) > size
    watermarks = []
    for end in [size, *range(size + 1, len(log_bytes), 797), len(log_bytes)]:
        cut_checkpoint = tmp_path / f"cut at {end}"
        shutil.copytree(checkpoint, cut_checkpoint)
        (cut_checkpoint / log.name).write_bytes(log_bytes[:end])
        watermarks.append([mt.open_state(cut_checkpoint, operator=n).watermark for n in range(2)])
        assert watermarks[-1] in (old_watermarks, [time_at(10)] * 2)
    assert (watermarks[0], watermarks[1], watermarks[-1]) == (
        old_watermarks,
        old_watermarks,
        [time_at(10)] * 2,
    )
    # A run from the unchanged checkpoint continues as before.
    old_checkpoint, new_checkpoint = (
        tmp_path / f"cut at {size}",
        tmp_path / f"cut at {len(log_bytes)}",
    )
    feed.add(*list_valid_messages(20, 200))
    counts_by_run = [
        run(QUERIES["chain"](feed.read), folder, out).progress.inner.counts
        for folder in (old_checkpoint, new_checkpoint)
    ]
    assert [counts.get("late", 0) for counts in counts_by_run] == [90, 0]


def test_invalid_resets_are_refused(tmp_path: Path) -> None:
    feed, checkpoint, out = Feed(tmp_path / "in"), tmp_path / "checkpoint", tmp_path / "o.duckdb"
    feed.add(*list_valid_messages(0, 100))
    with pytest.raises(OptionError, match="isn't a folder; give the folder of"):
        mt.reset_watermark(tmp_path / "none", to=time_at(1))
    run(build_views(feed), checkpoint, out)
    for late in (time_at(93), "2026-01-03"):
        with pytest.raises(OptionError, match="isn't before a watermark of the query"):
            mt.reset_watermark(checkpoint, to=late)
    with pytest.raises(OptionError, match="isn't a point in time"):
        mt.reset_watermark(checkpoint, to="noon")
    running = build_views(feed).start(checkpoint=checkpoint, results=mt.to_memory())
    try:
        with pytest.raises(OptionError, match="is in use by a query"):
            mt.reset_watermark(checkpoint, to=time_at(10))
    finally:
        running.stop()


def test_windows_of_rows_are_refused(tmp_path: Path) -> None:
    feed, checkpoint = Feed(tmp_path / "in"), tmp_path / "checkpoint"
    feed.add(*list_valid_messages(0, 100))
    query = mt.windowed(feed.read("left"), key="key").tumbling(mt.rows(3)).agg(n=mt.count())
    run(query, checkpoint, tmp_path / "o.duckdb")
    with pytest.raises(OptionError, match="has windows of rows; give one of windows in time"):
        mt.reset_watermark(checkpoint, to=time_at(10))


def test_deltas_are_refused_where_they_would_be_added_twice(tmp_path: Path) -> None:
    feed, checkpoint = Feed(tmp_path / "in"), tmp_path / "checkpoint"
    feed.add(("a", 1), ("a", 130), ("a", 250))
    windows = mt.windowed(feed.read("left"), key="key", time="at", lateness="5 seconds")
    policies = windows.tumbling("1 minute").early(each=True).late(grace="5 minutes", each=True)
    run(policies.deltas().agg(n=mt.count()), checkpoint, tmp_path / "o.duckdb")
    with pytest.raises(OptionError, match="opens 1 windows again, whose results were added"):
        mt.reset_watermark(checkpoint, to=time_at(100))
    assert mt.reset_watermark(checkpoint, to=time_at(200)).open_again == 0


def test_windows_that_other_windows_have_counted_are_refused(tmp_path: Path) -> None:
    feed, checkpoint = Feed(tmp_path / "in"), tmp_path / "checkpoint"
    feed.add(("a", 1), ("a", 130), ("a", 250))
    inner = mt.windowed(feed.read("left"), key="key", time="at", lateness="5 seconds")
    inner = inner.tumbling("1 minute").keep("1 hour").agg(n=mt.count())
    outer = mt.windowed(inner, key="key", time="window_start", lateness="0 seconds")
    outer = outer.tumbling("5 minutes").agg(n=mt.sum("n"))
    run(outer, checkpoint, tmp_path / "o.duckdb")
    with pytest.raises(OptionError, match="opens 1 windows again, whose results were added"):
        mt.reset_watermark(checkpoint, to=time_at(100))
    assert mt.reset_watermark(checkpoint, to=time_at(200)).open_again == 0


def test_a_batch_that_began_must_end_first(tmp_path: Path) -> None:
    feed, checkpoint = Feed(tmp_path / "in"), tmp_path / "checkpoint"
    feed.add(("a", 1), ("a", 250))
    feed.add(("a", 400))

    def fail(rows: pl.DataFrame, batch: int) -> None:
        if batch:
            raise RuntimeError("the power failed")

    query = build_views(feed).start(checkpoint=checkpoint, results=fail, available_now=True)
    with pytest.raises(mt.BatchError, match="the power failed"):
        query.await_end(60)
    with pytest.raises(OptionError, match="has begun batch 1, and not ended it; start the query"):
        mt.reset_watermark(checkpoint, to=time_at(100))


def test_the_clock_of_one_partition_is_set_back(tmp_path: Path) -> None:
    feed, checkpoint, out = Feed(tmp_path / "in"), tmp_path / "checkpoint", tmp_path / "o.duckdb"
    options = {"lateness": "0 seconds", "watermark": ["key"], "idle": "1 day"}
    windows = mt.windowed(feed.read("left"), key="key", time="at", **options)
    query = windows.tumbling("1 minute").agg(n=mt.count())
    feed.add(("a", 65), ("b", DAY))
    run(query, checkpoint, out)
    reset = mt.reset_watermark(checkpoint, to=time_at(100))
    assert [change.name for change in reset.changes[0]] == ["b"]
    feed.add(("a", 200))
    feed.add(("b", 190))
    assert run(query, checkpoint, out).progress.watermark == time_at(190)


@pytest.mark.parametrize(
    ("make_windows", "problem"),
    [
        (lambda w: w.trailing("1 minute", every="10 seconds"), "trailing 1 minute"),
        (lambda w: w.session("1 minute", end="value > 90"), "session 1 minute"),
        (lambda w: w.tumbling("1 day", zone_column="key"), "each key's zone"),
        (lambda w: w.tumbling("1 minute").fill("linear", up_to="1 hour"), "filled with linear"),
    ],
)
def test_windows_that_cannot_be_opened_again_are_refused(
    tmp_path: Path, make_windows: Any, problem: str
) -> None:
    feed, checkpoint, out = Feed(tmp_path / "in"), tmp_path / "checkpoint", tmp_path / "o.duckdb"
    feed.add(("Europe/Paris", 1), ("Europe/Paris", 2), ("Europe/Paris", DAY))
    windows = mt.windowed(feed.read("left"), key="key", time="at", max_ahead=None)
    run(make_windows(windows).agg(value=mt.sum("value")), checkpoint, out)
    with pytest.raises(OptionError, match=f"can't be opened again .*{problem}"):
        mt.reset_watermark(checkpoint, to=time_at(100))
