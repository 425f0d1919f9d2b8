"""Tests of moving queries from and to the local host, without Spark."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from tests.moved_queries import QUERIES, Folders, clock_triggers, hopping, read_tables, run

import muntin as mt
from muntin import OptionError, SpecChangedError, StateCorruptedError
from muntin.dataframe import move as moving
from muntin.hosts.local.move import read_local_query, write_query
from muntin.hosts.seed import BLOBS, FACTS, FOLDER, parse_seed
from muntin.state.manifest import parse_manifest


def _hash_files(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _fail_in(batch: int) -> Any:
    def write(rows: pl.DataFrame, number: int) -> None:
        if number == batch:
            raise RuntimeError("the power failed")

    return write


@pytest.mark.parametrize("name", QUERIES)
def test_a_moved_query_continues(tmp_path: Path, name: str) -> None:
    folders, query = Folders(tmp_path / "in"), QUERIES[name]
    folders.add(4)
    unmoved_out, moved_out = tmp_path / "once.duckdb", tmp_path / "twice.duckdb"
    run(query(folders.read), tmp_path / "old", moved_out)
    new = tmp_path / "new"
    new.mkdir()
    with read_local_query(str(tmp_path / "old")) as (seed, blobs):
        write_query(new, seed, blobs)
    folders.add(4)
    moved = run(query(folders.read), new, moved_out)
    unmoved = run(query(folders.read), tmp_path / "whole", unmoved_out)
    assert moved.progress.counts == unmoved.progress.counts
    assert read_tables(moved_out) == read_tables(unmoved_out)


def test_a_seed_has_the_last_commit_and_the_planned_batch(tmp_path: Path) -> None:
    folders, old, new = Folders(tmp_path / "in"), tmp_path / "old", tmp_path / "new"
    folders.add(3)
    query = hopping(folders.read).start(checkpoint=old, results=_fail_in(2), available_now=True)
    with pytest.raises(mt.BatchError, match="the power failed"):
        query.await_end(60)
    old_hashes = _hash_files(old)
    assert mt.move(old, new, to="spark") == 1
    assert _hash_files(old) == old_hashes
    seed = parse_seed((new / FOLDER / FACTS).read_text(), str(new))
    assert seed.committed.number == 1
    assert [Path(path).name for path in seed.committed.ends[0]["recent"]] == [
        "0000 =é.parquet",
        "0001 =é.parquet",
    ]
    assert seed.planned is not None
    assert [Path(path).name for path, _ in seed.planned.ends[0]["batch"]] == ["0002 =é.parquet"]
    stored = pq.read_table(new / FOLDER / BLOBS)
    manifest = parse_manifest(seed.committed.manifests[0, 0])
    numbers = [number for blob_run in manifest.runs() for number in blob_run.blobs]
    assert sorted(stored["number"].to_pylist()) == sorted(numbers)
    assert min(map(len, stored["blob"].to_pylist())) > 0
    with pytest.raises(SpecChangedError, match="is a checkpoint of a query on Spark"):
        hopping(folders.read).start(checkpoint=new)


def test_a_running_query_is_not_moved(tmp_path: Path) -> None:
    folders, old = Folders(tmp_path / "in"), tmp_path / "old"
    folders.add(1)
    query = hopping(folders.read).start(checkpoint=old)
    assert query.await_idle(60)
    with pytest.raises(OptionError, match="is in use by a query of process"):
        mt.move(old, tmp_path / "new", to="spark")
    query.stop()
    assert not (tmp_path / "new").exists()
    assert mt.move(old, tmp_path / "new", to="spark") == 0


def test_sources_that_spark_lacks_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    frame = pl.DataFrame({"at": ["2026-01-01"]}).select(pl.col("at").str.to_datetime())
    for source, time, problem in (
        (frame, "at", "reads a frame as its source 1"),
        (mt.ticks(100), "timestamp", "reads mt.ticks as its source 1"),
    ):
        old = tmp_path / time
        windows = mt.windowed(source, time=time).tumbling("1 second").agg(n=mt.count())
        assert windows.start(checkpoint=old, available_now=True).await_end(60)
        with pytest.raises(OptionError, match=problem):
            mt.move(old, tmp_path / "new", to="spark")
        assert not (tmp_path / "new").exists()


def test_unusable_folders_are_refused(tmp_path: Path) -> None:
    folders, old = Folders(tmp_path / "in"), tmp_path / "old"
    folders.add(1)
    run(hopping(folders.read), old, tmp_path / "out.duckdb")
    full_folder = tmp_path / "full"
    full_folder.mkdir()
    (full_folder / "file").touch()
    for target, to, problem in (
        (full_folder, "spark", "TO='.*full' isn't empty"),
        ("s3a://bucket/new", "spark", "TO='s3a://bucket/new' isn't on this machine"),
        (tmp_path / "new", "local", "is a checkpoint of the local host already"),
        (tmp_path / "new", "flink", "to='flink' isn't a host"),
    ):
        with pytest.raises(OptionError, match=problem):
            mt.move(old, target, to=to)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="isn't a checkpoint of the other host"):
        mt.move(tmp_path / "none", tmp_path / "new", to="spark")
    empty_checkpoint = tmp_path / "empty"
    hopping(
        lambda name: mt.files(
            tmp_path / "nothing/*.csv", columns="key string, at timestamp, value long"
        )
    ).start(checkpoint=empty_checkpoint, available_now=True).await_end(60)
    with pytest.raises(OptionError, match="has no committed batch"):
        mt.move(empty_checkpoint, tmp_path / "new", to="spark")
    assert not (tmp_path / "new").exists()


def test_an_interruption_leaves_no_new_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders, old = Folders(tmp_path / "in"), tmp_path / "old"
    folders.add(1)
    run(hopping(folders.read), old, tmp_path / "out.duckdb")
    monkeypatch.setattr(moving, "sync_path", _fail)
    with pytest.raises(KeyboardInterrupt):
        mt.move(old, tmp_path / "new", to="spark")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "old", "out.duckdb"]


def _fail(path: Path) -> None:
    assert (path / FOLDER / FACTS).exists()
    raise KeyboardInterrupt


def test_seeds_that_are_damaged_or_of_other_versions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StateCorruptedError, match="has format 2, this muntin reads format 1"):
        parse_seed(json.dumps({"format": 2}), str(tmp_path))
    for text in ("", "[]", '{"format": 1}', '{"format": 1, "identity": "", "commit": {}}'):
        with pytest.raises(StateCorruptedError, match="can't be read"):
            parse_seed(text, str(tmp_path))


def test_a_batch_that_spark_has_planned_keeps_its_clock(tmp_path: Path) -> None:
    folders, new = Folders(tmp_path / "in"), tmp_path / "new"
    folders.add(2)
    query = clock_triggers(folders.read).start(
        checkpoint=tmp_path / "old", results=_fail_in(1), available_now=True
    )
    with pytest.raises(mt.BatchError, match="the power failed"):
        query.await_end(60)
    new.mkdir()
    with read_local_query(str(tmp_path / "old")) as (seed, blobs):
        assert seed.planned is not None
        wall = seed.planned.now + 5_000_000
        seed = replace(seed, planned=replace(seed.planned, wall=wall))
        write_query(new, seed, blobs)
    walls: list[int | None] = []

    def stop(rows: pl.DataFrame, number: int) -> None:
        if number == 2:
            raise RuntimeError("it is late")

    folders.add(1)
    continued = clock_triggers(folders.read).start(checkpoint=new, results=stop, available_now=True)
    with pytest.raises(mt.BatchError, match="it is late"):
        continued.await_end(60)
    with read_local_query(str(new)) as (seed, _):
        walls = [parse_manifest(text).wall for text in seed.committed.manifests.values()]
    assert (seed.committed.number, walls) == (1, [wall])
