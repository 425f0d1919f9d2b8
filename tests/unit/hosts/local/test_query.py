"""Tests of queries in a thread: handles, restarts, ends and errors; and of a killed process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

import muntin as mt
from muntin import BatchError, OptionError, SourceError, SpecChangedError, StateCorruptedError
from muntin.hosts.local.definition import LocalWindowedAggregate
from muntin.hosts.progress import Progress
from muntin.query import Query

_START = datetime(2026, 1, 1, tzinfo=UTC)


def _make_frame(count: int) -> pl.DataFrame:
    at = [_START + timedelta(seconds=second) for second in range(count)]
    return pl.DataFrame({"k": ["a", "b"] * (count // 2), "at": at})


def _count_windows(frame: pl.DataFrame, size: str = "10 seconds") -> LocalWindowedAggregate:
    return mt.windowed(frame, key="k", time="at").tumbling(size).agg(n=mt.count())


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_frame_is_a_finite_source(tmp_path: Path) -> None:
    query = _count_windows(_make_frame(40)).start(checkpoint=tmp_path, name="clicks")
    assert isinstance(query, Query)
    assert query.await_end(60)
    assert not query.is_active
    assert query.frame()["n"].to_list() == [5] * 8
    assert query.progress.counts == {"seen": 40, "counted": 40}
    assert query.progress.adds_up()
    # The query is complete, so a restart has nothing to do.
    restarted = _count_windows(_make_frame(40)).start(checkpoint=tmp_path)
    assert restarted.await_end(60)
    assert restarted.progress == Progress(**{**vars(query.progress), "fired": {}})


def test_a_warning_names_a_rejected_message_if_no_sink_gets_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frame = pl.concat(
        [_make_frame(4), _make_frame(4).with_columns(k=pl.lit(None, dtype=pl.String))]
    )
    frame = frame.with_columns(offset=pl.int_range(pl.len()), secret=pl.lit("payload"))
    assert (
        _count_windows(frame).start(checkpoint=tmp_path / "a", results=mt.to_memory()).await_end(60)
    )
    (warning,) = caplog.messages
    assert warning.startswith(
        "batch 0: messages were rejected as null_key (4 so far; one has offset=4), and no sink"
    )
    caplog.clear()
    rejected = mt.to_memory()
    assert _count_windows(frame).start(checkpoint=tmp_path / "b", rejected=rejected).await_end(60)
    assert caplog.messages == []


def test_functions_get_batches_that_have_rows(tmp_path: Path) -> None:
    results: list[tuple[int, int]] = []
    rejected: list[str] = []
    frame = pl.concat(
        [_make_frame(4), _make_frame(4).with_columns(k=pl.lit(None, dtype=pl.String))]
    )
    query = _count_windows(frame).start(
        checkpoint=tmp_path,
        results=lambda rows, batch: results.append((batch, len(rows))),
        rejected=lambda rows, batch: rejected.extend(rows["reason"]),
    )
    assert query.await_end(60)
    assert results == [(0, 2)]
    assert rejected == ["null_key"] * 4
    with pytest.raises(OptionError, match="isn't kept in memory"):
        query.frame()


def test_a_query_stops_and_resumes(tmp_path: Path) -> None:
    windows = mt.windowed(mt.ticks(2000), time="timestamp").tumbling("1 second").early(each=True)
    definition = windows.agg(n=mt.count(), last=mt.max("value"))
    query = definition.start(checkpoint=tmp_path)
    seen: list[int] = []
    query.watchers.append(lambda number, batches: seen.append(number))
    _wait_until(lambda: query.progress.batch >= 2)
    query.stop()
    stopped_progress = query.progress
    assert not query.is_active
    assert seen
    resumed = definition.start(checkpoint=tmp_path, available_now=True)
    assert resumed.await_end(60)
    assert resumed.progress.batch > stopped_progress.batch
    newest = resumed.frame().sort("window_start").row(-1, named=True)
    # Ticks are numbered from 0: none was lost or taken twice.
    assert resumed.progress.counts["counted"] == newest["last"] + 1


def test_await_idle_returns_when_all_is_read() -> None:
    counts = mt.windowed(mt.ticks(0.001), time="timestamp").tumbling("1 second").agg(n=mt.count())
    query = counts.start(checkpoint=None)
    assert query.await_idle(60)
    assert query.progress.seen == 1
    query.stop()


def test_await_idle_waits_for_a_file_that_was_just_written(tmp_path: Path) -> None:
    """Its writer may still append to it, so it isn't read at once."""
    clicks = mt.files(f"{tmp_path}/*.jsonl", columns="k string, at timestamp")
    query = mt.windowed(clicks, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    running = query.start(checkpoint=None)
    for number in (1, 2):
        line = '{"k": "a", "at": "2026-01-01T00:00:00Z"}\n'
        (tmp_path / f"{number}.jsonl").write_text(line)
        assert running.await_idle(60)
        assert running.progress.seen == number
    running.stop()


def test_a_policy_by_the_clock_emits_without_messages() -> None:
    windows = mt.windowed(mt.ticks(0.001), time="timestamp").tumbling("1 hour")
    query = windows.early(every="50 milliseconds").agg(n=mt.count()).start(checkpoint=None)
    _wait_until(lambda: query.progress.fired.get("early") == 1)
    query.stop()
    assert query.frame()["n"].to_list() == [1]


def test_a_run_to_the_end_of_the_files_leaves_no_window_that_waits_for_the_clock(
    tmp_path: Path,
) -> None:
    """Otherwise the tables of a run from cron would lack the newest messages until the next run."""
    _make_frame(20).write_parquet(tmp_path / "1.parquet")
    os.utime(tmp_path / "1.parquet", (1e9, 1e9))
    windows = mt.windowed(mt.files(f"{tmp_path}/*.parquet"), key="k", time="at").tumbling("1 hour")
    for policy in ({"every": "1 day"}, {"after": "1 day"}):
        query = windows.early(**policy).agg(n=mt.count()).start(checkpoint=None, available_now=True)
        assert query.await_end(60)
        assert query.progress.pending == 0
        assert query.progress.fired == {"early": 2}
        assert query.frame()["n"].to_list() == [10, 10]


def test_another_spec_is_refused_before_anything_runs(tmp_path: Path) -> None:
    assert _count_windows(_make_frame(20)).start(checkpoint=tmp_path).await_end(60)
    with pytest.raises(SpecChangedError, match="windows: was tumbling 10 seconds"):
        _count_windows(_make_frame(20), "1 minute").start(checkpoint=tmp_path)
    hours = mt.windowed(_count_windows(_make_frame(20)), time="window_time").tumbling("1 hour")
    with pytest.raises(SpecChangedError, match="a chain of 1 operators, and this query has 2"):
        hours.agg(n=mt.sum("n")).start(checkpoint=tmp_path)
    # A failed start leaves the checkpoint to others.
    assert _count_windows(_make_frame(20)).start(checkpoint=tmp_path).await_end(60)


def test_a_checkpoint_belongs_to_one_query(tmp_path: Path) -> None:
    counts = mt.windowed(mt.ticks(1), time="timestamp").tumbling("1 second").agg(n=mt.count())
    query = counts.start(checkpoint=tmp_path)
    with pytest.raises(OptionError, match="is in use by"):
        counts.start(checkpoint=tmp_path)
    query.stop()
    counts.start(checkpoint=tmp_path).stop()


def test_an_error_of_a_sink_ends_the_query_and_the_batch_is_repeated(tmp_path: Path) -> None:
    def fail(rows: pl.DataFrame, batch: int) -> None:
        raise KeyError("x")

    query = _count_windows(_make_frame(20)).start(checkpoint=tmp_path, results=fail)
    with pytest.raises(BatchError, match=r"KeyError: 'x' \(batch 0, the sink of results") as error:
        query.await_end(60)
    assert isinstance(error.value.__cause__, KeyError)
    batches: list[int] = []
    query = _count_windows(_make_frame(20)).start(
        checkpoint=tmp_path, results=lambda rows, batch: batches.append(batch)
    )
    assert query.await_end(60)
    assert batches == [0]


def test_a_frame_shorter_than_the_committed_offset_is_refused(tmp_path: Path) -> None:
    def fail(rows: pl.DataFrame, batch: int) -> None:
        raise KeyError("x")

    query = _count_windows(_make_frame(20)).start(checkpoint=tmp_path, results=fail)
    with pytest.raises(BatchError):
        query.await_end(60)
    query = _count_windows(_make_frame(4)).start(checkpoint=tmp_path)
    with pytest.raises(SourceError, match="4 rows"):
        query.await_end(60)


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    assert _count_windows(_make_frame(20)).start(checkpoint=tmp_path).await_end(60)
    path = tmp_path / "00000001.log"
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(StateCorruptedError, match=r"00000001\.log is damaged at byte"):
        _count_windows(_make_frame(20)).start(checkpoint=tmp_path)


def test_a_checkpoint_that_cant_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "checkpoint"):
        with pytest.raises(OptionError, match=r"checkpoint='.*' can't be written: \w.*; give a"):
            _count_windows(_make_frame(20)).start(checkpoint=path)


def test_a_checkpoint_of_spark_is_refused(tmp_path: Path) -> None:
    for name in ("offsets", "state"):
        (tmp_path / name).mkdir()
    with pytest.raises(SpecChangedError, match="is a checkpoint of a query on Spark"):
        _count_windows(_make_frame(20)).start(checkpoint=tmp_path)


@pytest.mark.parametrize("checkpoint", ["", " ", 5, b"there"])
def test_an_invalid_checkpoint_folder_is_refused(checkpoint: object) -> None:
    with pytest.raises(OptionError, match=r"checkpoint=.*; give a folder, as in 'checkpoints/"):
        _count_windows(_make_frame(20)).start(checkpoint=checkpoint)  # type: ignore[arg-type]


@pytest.mark.parametrize("durable", [0, "soon", "0 seconds"])
def test_durable_is_a_boolean_or_a_duration(durable: object, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="durable="):
        _count_windows(_make_frame(20)).start(checkpoint=tmp_path, durable=durable)  # type: ignore[arg-type]


@pytest.mark.parametrize("durable", [True, False, "1 second"])
def test_each_value_of_durable_commits_batches(durable: object, tmp_path: Path) -> None:
    query = _count_windows(_make_frame(20)).start(checkpoint=tmp_path, durable=durable)  # type: ignore[arg-type]
    assert query.await_end(60)
    assert _count_windows(_make_frame(20)).start(checkpoint=tmp_path).progress.counts["seen"] == 20


_PROGRAM = """
import json, sys
import muntin as mt

out = open(sys.argv[2], "a")

def write(rows, batch):
    for row in rows.select("window_start", "n", "revision").iter_rows():
        print(json.dumps([batch, str(row[0]), *row[1:]]), file=out, flush=True)

ticks = mt.windowed(mt.ticks(3000), time="timestamp").tumbling("100 milliseconds")
query = ticks.early(each=True).agg(n=mt.count()).start(checkpoint=sys.argv[1], results=write)
query.await_end()
"""


def test_a_killed_process_loses_and_repeats_no_row(tmp_path: Path) -> None:
    out = tmp_path / "rows"
    out.touch()
    for _ in range(3):
        old_size = out.stat().st_size
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(tmp_path / "checkpoint"), str(out)]
        )
        try:
            _wait_until(lambda old_size=old_size: out.stat().st_size > old_size + 500)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    ticks = mt.windowed(mt.ticks(3000), time="timestamp").tumbling("100 milliseconds")
    query = (
        ticks.early(each=True)
        .agg(n=mt.count())
        .start(checkpoint=tmp_path / "checkpoint", available_now=True)
    )
    assert query.await_end(60)
    rows_by_batch: dict[int, set[str]] = {}
    newest: dict[str, tuple[int, int]] = {}
    for line in out.read_text().splitlines():
        batch, start, n, revision = json.loads(line)
        rows_by_batch.setdefault(batch, set()).add(f"{start} {n} {revision}")
        newest[start] = max(newest.get(start, (-1, 0)), (revision, n))
    for start, n, revision in query.frame().select("window_start", "n", "revision").iter_rows():
        newest[str(start)] = max(newest.get(str(start), (-1, 0)), (revision, n))
    assert sum(n for _, n in newest.values()) == query.progress.counts["counted"]
    # A repeated batch has the rows that it had.
    rows = [row for batch in rows_by_batch.values() for row in batch]
    assert len(rows) == len({row.rpartition(" ")[0] + row.rpartition(" ")[2] for row in rows})


def test_a_finite_side_does_not_hold_the_watermark_back(tmp_path: Path) -> None:
    users = pl.DataFrame({"k": ["a", "b"], "at": [_START - timedelta(days=1)] * 2, "n": [1, 2]})
    folder = tmp_path / "clicks"
    folder.mkdir()
    _make_frame(4).write_parquet(folder / "1.parquet")
    clicks = mt.windowed(mt.files(f"{folder}/*.parquet"), time="at")
    join = mt.join(clicks, mt.windowed(users, time="at"), on="k", as_of=True, how="left")
    rows: list[tuple[str, int]] = []
    query = join.start(
        checkpoint=tmp_path / "checkpoint",
        results=lambda frame, batch: rows.extend(frame.select("k", "n").rows()),
    )
    try:
        # The last click waits for a later one, since more clicks of its time may arrive.
        _wait_until(lambda: len(rows) >= 3)
        assert sorted(rows)[:3] == [("a", 1), ("a", 1), ("b", 2)]
    finally:
        query.stop()


def test_rejected_messages_name_the_windows_of_a_chain_that_rejected_them(tmp_path: Path) -> None:
    frame = _make_frame(40).with_columns(
        k=pl.when(pl.col("at").dt.second() == 3).then(None).otherwise("k")
    )
    inner = _count_windows(frame)
    null_page = pl.when(pl.col("n") < 0).then(pl.col("k")).alias("page")
    outer = mt.windowed(inner, key=null_page, time="window_time")
    rejected = outer.tumbling("20 seconds").agg(n=mt.count()).rejected
    rows = rejected.select("stage", "reason", "n").sort("stage", "n", nulls_last=True).rows()
    assert rows == [(1, "null_key", None), *[(2, "null_key", n) for n in (4, *[5] * 7)]]
