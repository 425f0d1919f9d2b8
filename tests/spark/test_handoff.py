"""What a shard leaves for the next batch's tasks is read back, and nothing else is."""

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


def sealed(value: Any) -> bytes:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"%08x" % zlib.crc32(text) + text


def test_what_was_left_is_read() -> None:
    judged = decode_watermark(WHOLE)
    assert judged is not None
    assert (judged.is_known, judged.watermark) == (True, 5)
    assert judged.taken is not None
    assert judged.taken.dumps() == [(0, 1, 2), ("p", -3, 4)]
    nothing = decode_watermark(encode_watermark(None, []))
    assert nothing is not None
    assert nothing.watermark is None


FOREIGN = [
    b"",
    b"{}",
    b"[1]",
    b'{"watermark": 5, "taken": []}',
    b"\xff" * 20,
    WHOLE[:-1],
    WHOLE.replace(b"5", b"6"),
    WHOLE + b" ",
    sealed({}),
    sealed([1]),
    sealed({"watermark": "soon", "taken": []}),
    sealed({"watermark": 5.0, "taken": []}),
    sealed({"watermark": True, "taken": []}),
    sealed({"watermark": 2**63, "taken": []}),
    sealed(b'{"watermark": NaN, "taken": []}'),
    sealed({"watermark": 5}),
    sealed({"watermark": 5, "taken": 7}),
    sealed({"watermark": 5, "taken": [[0, 1]]}),
    sealed({"watermark": 5, "taken": [[[0], 1, 2]]}),
    sealed({"watermark": 5, "taken": [[0, "a", "b"]]}),
    sealed(b"[" * 100_000),
    sealed(b"1" * 10_000),
]


@pytest.mark.parametrize("left", FOREIGN)
def test_what_nobody_wrote_is_as_if_it_were_not_there(
    left: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handoff, "_find_batch", lambda: ("query", 1))
    monkeypatch.setattr(handoff, "_path_of", lambda *_: tmp_path / "left")
    assert load_watermark("operator") == TaskWatermark(False, None)
    (tmp_path / "left").write_bytes(left)
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
    ("properties", "place"),
    [(SPARKS, ("q", 3)), (TAGS, ("token", 4)), ({"spark.job.tags": "another"}, None), ({}, None)],
)
def test_a_task_knows_its_batch_by_spark_or_by_a_tag(
    properties: dict[str, str], place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handoff.TaskContext, "get", lambda: Task(**properties))
    assert handoff._find_batch() == place


def test_where_nothing_says_which_batch_it_is_a_stream_has_no_watermark_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handoff, "_find_batch", lambda: None)
    assert load_watermark("operator") == TaskWatermark(False, None)
    assert load_watermark("operator", streams=False).is_known
