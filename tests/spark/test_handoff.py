"""Tests that the watermark that a shard stores for the next batch's tasks is read back."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from muntin.spark.host import handoff
from muntin.spark.host.handoff import (
    TaskWatermark,
    decode_watermark,
    encode_watermark,
    load_watermark,
    tag_of_batch,
)

pytestmark = pytest.mark.slow

WHOLE = encode_watermark(5, [(0, 1, 2), ("p", -3, 4)])


def add_checksum(value: Any) -> bytes:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"%08x" % zlib.crc32(text) + text


def test_what_was_left_is_read() -> None:
    task_watermark = decode_watermark(WHOLE)
    assert task_watermark is not None
    assert (task_watermark.is_known, task_watermark.watermark) == (True, 5)
    assert task_watermark.taken is not None
    assert task_watermark.taken.dumps() == [(0, 1, 2), ("p", -3, 4)]
    empty = decode_watermark(encode_watermark(None, []))
    assert empty is not None
    assert empty.watermark is None


FOREIGN = [
    b"",
    b"{}",
    b"[1]",
    b'{"watermark": 5, "taken": []}',
    b"\xff" * 20,
    WHOLE[:-1],
    WHOLE.replace(b"5", b"6"),
    WHOLE + b" ",
    add_checksum({}),
    add_checksum([1]),
    add_checksum({"watermark": "soon", "taken": []}),
    add_checksum({"watermark": 5.0, "taken": []}),
    add_checksum({"watermark": True, "taken": []}),
    add_checksum({"watermark": 2**63, "taken": []}),
    add_checksum(b'{"watermark": NaN, "taken": []}'),
    add_checksum({"watermark": 5}),
    add_checksum({"watermark": 5, "taken": 7}),
    add_checksum({"watermark": 5, "taken": [[0, 1]]}),
    add_checksum({"watermark": 5, "taken": [[[0], 1, 2]]}),
    add_checksum({"watermark": 5, "taken": [[0, "a", "b"]]}),
    add_checksum(b"[" * 100_000),
    add_checksum(b"1" * 10_000),
]


@pytest.mark.parametrize("stored", FOREIGN)
def test_what_nobody_wrote_is_as_if_it_were_not_there(
    stored: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handoff, "_find_batch", lambda: ("query", 1))
    monkeypatch.setattr(handoff, "_path_of", lambda *_: tmp_path / "left")
    assert load_watermark("operator") == TaskWatermark(False, None)
    (tmp_path / "left").write_bytes(stored)
    assert load_watermark("operator") == TaskWatermark(False, None)
    (tmp_path / "left").write_bytes(WHOLE)
    assert load_watermark("operator").watermark == 5


class Task:
    """A task's context, with local properties."""

    def __init__(self, **properties: str) -> None:
        self.properties = properties

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        return self.properties.get(name)


SPARKS = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "3"}
TAGS = {"spark.job.tags": f"SparkConnect_Tag_{tag_of_batch('token', 4)},another"}


@pytest.mark.parametrize(
    ("properties", "batch"),
    [(SPARKS, ("q", 3)), (TAGS, ("token", 4)), ({"spark.job.tags": "another"}, None), ({}, None)],
)
def test_a_task_knows_its_batch_by_spark_or_by_a_tag(
    properties: dict[str, str], batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handoff.TaskContext, "get", lambda: Task(**properties))
    assert handoff._find_batch() == batch


def test_where_nothing_says_which_batch_it_is_a_stream_has_no_watermark_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handoff, "_find_batch", lambda: None)
    assert load_watermark("operator") == TaskWatermark(False, None)
    assert load_watermark("operator", streams=False).is_known
