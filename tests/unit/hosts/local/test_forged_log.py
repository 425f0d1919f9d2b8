"""Tests that records with a valid checksum and hostile contents raise one error."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

import muntin as mt
from muntin.hosts.local.log import BEGIN, COMMIT, PLAN, Log
from muntin.hosts.local.log_contents import LogContents, format_begin
from muntin.model.errors import StateCorruptedError

_COMMIT = {"number": 0, "ends": [], "final": False, "progress": {}, "shards": [1], "planned": None}


def write_log(folder: Path, kind: bytes, body: bytes) -> Log:
    log = Log(folder, sync=False)
    log.begin(1, format_begin("x"))
    log.append(kind, body)
    log.flush(disk=False)
    log.close()
    return log


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[1]",
        b"{}",
        b"\xff\xfe",
        b"9" * 5000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"format": 1}',
    ],
)
@pytest.mark.parametrize("kind", [BEGIN, PLAN, COMMIT])
def test_a_forged_record_is_named(tmp_path: Path, kind: bytes, body: bytes) -> None:
    log = write_log(tmp_path, kind, body)
    with pytest.raises(
        StateCorruptedError, match=r"00000001\.log (holds no record of|has format None)"
    ):
        LogContents(log)


@pytest.mark.parametrize("manifest", ["", "[]", "[" * 100_000 + "]" * 100_000, '{"format": 1e400}'])
def test_a_forged_manifest_is_named(tmp_path: Path, manifest: str) -> None:
    body = json.dumps({**_COMMIT, "manifests": [[0, 0, manifest]]}).encode()
    with pytest.raises(StateCorruptedError, match=r"manifest|format"):
        LogContents(write_log(tmp_path, COMMIT, body)).list_blob_sizes()


def test_a_pipe_instead_of_a_log_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "00000001.log")
    assert LogContents(Log(tmp_path)).file is None


def test_a_link_instead_of_a_log_is_not_followed(tmp_path: Path) -> None:
    """Otherwise a query would continue the log of another one."""
    write_log(tmp_path, COMMIT, b"{}")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "00000001.log").symlink_to(tmp_path / "00000001.log")
    with pytest.raises(StateCorruptedError, match=r"00000001\.log is a symbolic link"):
        Log(tmp_path / "copy").list_files()


@pytest.mark.parametrize("name", ["unwritable", "unwritable/00000000-results.parquet"])
def test_a_link_instead_of_unwritable_rows_is_not_followed(tmp_path: Path, name: str) -> None:
    link_target, link = tmp_path / "other", tmp_path / "checkpoint" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(link_target)
    rows = pl.DataFrame({"k": ["!" * 300], "at": [datetime(2026, 1, 1, tzinfo=UTC)]})
    windows = mt.windowed(rows, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    query = windows.start(
        checkpoint=str(tmp_path / "checkpoint"),
        results=mt.to_parquet(tmp_path / "out", partition_by="k"),
        available_now=True,
    )
    with pytest.raises(StateCorruptedError, match=rf"{name} is a symbolic link"):
        query.await_end(60)
    assert not link_target.exists()
