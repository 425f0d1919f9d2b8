"""Records of a checkpoint with a right checksum and hostile contents end in one error."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from muntin.hosts.local.log import BEGIN, COMMIT, PLAN, Log
from muntin.hosts.local.log_contents import LogContents, format_begin
from muntin.model.errors import StateCorruptedError

_COMMIT = {"number": 0, "ends": [], "final": False, "progress": {}, "shards": [1], "planned": None}


def write(folder: Path, kind: bytes, body: bytes) -> Log:
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
    log = write(tmp_path, kind, body)
    with pytest.raises(
        StateCorruptedError, match=r"00000001\.log (holds no record of|has format None)"
    ):
        LogContents(log)


@pytest.mark.parametrize("manifest", ["", "[]", "[" * 100_000 + "]" * 100_000, '{"format": 1e400}'])
def test_a_forged_manifest_is_named(tmp_path: Path, manifest: str) -> None:
    body = json.dumps({**_COMMIT, "manifests": [[0, 0, manifest]]}).encode()
    with pytest.raises(StateCorruptedError, match=r"manifest|format"):
        LogContents(write(tmp_path, COMMIT, body)).list_blob_sizes()


def test_a_pipe_in_the_place_of_a_log_isnt_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "00000001.log")
    assert LogContents(Log(tmp_path)).file is None
