"""The folders of a checkpoint that a running query watches, and the offsets in them."""

from __future__ import annotations

from pathlib import Path

from muntin.spark.host.internals.folders import CheckpointFolders


def test_the_end_offsets_of_a_batch_are_those_of_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "6").write_text('v1\n{}\n{"a":6}\n-')
    (tmp_path / "offsets" / "7").write_text('v1\n{"conf":{}}\n{"a":7}\n{"b":"\u00e4"}', "utf-8")
    folders = CheckpointFolders(tmp_path)
    assert folders.read_offsets(7) == ['{"a":7}', '{"b":"\u00e4"}']
    assert folders.read_offsets(6) == ['{"a":6}', "-"]


def test_offsets_that_cant_be_read_fail_no_batch(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_bytes(b"v1\n{}\n\xff\xfe")
    folders = CheckpointFolders(tmp_path)
    assert folders.read_offsets(7) == []
    assert folders.read_offsets(8) == []
