"""Tests of the log: a tail that a crash cut off is dropped, other damage is reported."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from muntin import StateCorruptedError
from muntin.hosts.local.log import BLOB, COMMIT, PLAN, Location, Log
from muntin.hosts.local.log_contents import LogContents, format_begin


def _write_log(folder: Path) -> tuple[Log, list[Location]]:
    log = Log(folder)
    log.begin(1, b"begin")
    locations = []
    for number in range(3):
        locations.append(log.append(BLOB, bytes([number]) * 100))
        log.append(COMMIT, b"commit")
        log.flush(disk=True)
    return log, locations


def _read_kinds(folder: Path) -> list[bytes]:
    return [record.kind for record in Log(folder).read_records(1, last=True)]


def test_records_are_read_in_order(tmp_path: Path) -> None:
    log, locations = _write_log(tmp_path)
    log.close()
    assert _read_kinds(tmp_path) == [b"L", *[BLOB, COMMIT] * 3]
    assert [Log(tmp_path).read(location)[:1] for location in locations] == [
        b"\x00",
        b"\x01",
        b"\x02",
    ]


@pytest.mark.parametrize("lost", [1, 10, 50, 130])
def test_a_tail_that_was_cut_off_is_dropped(lost: int, tmp_path: Path) -> None:
    log, _ = _write_log(tmp_path)
    log.close()
    path = log.get_path(1)
    path.write_bytes(path.read_bytes()[:-lost])
    assert _read_kinds(tmp_path)[:5] == [b"L", *[BLOB, COMMIT] * 2]
    assert len(_read_kinds(tmp_path)) < 7


def test_damage_of_flushed_records_is_reported_with_its_position(tmp_path: Path) -> None:
    log, locations = _write_log(tmp_path)
    log.end()
    log.close()
    valid_log = log.get_path(1).read_bytes()
    for position in range(0, len(valid_log) - 50, 7):
        damaged_log = bytearray(valid_log)
        damaged_log[position] ^= 0x10
        log.get_path(1).write_bytes(bytes(damaged_log))
        with pytest.raises(StateCorruptedError, match=r"00000001\.log is damaged at byte [\d,]+"):
            _read_kinds(tmp_path)
    log.get_path(1).write_bytes(
        valid_log[: locations[1].start] + b"x" + valid_log[locations[1].start + 1 :]
    )
    with pytest.raises(StateCorruptedError, match="damaged"):
        Log(tmp_path).read(locations[1])


@pytest.mark.parametrize("size", [0, 1, 40])
def test_a_file_without_its_first_record_is_damaged(size: int, tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.begin(1, format_begin("x"))
    log.close()
    path = log.get_path(1)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(StateCorruptedError, match=r"00000001\.log is damaged at byte 0: restore"):
        LogContents(Log(tmp_path))
    assert path.stat().st_size == size


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_appears_with_its_first_record_on_disk(
    sync: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("muntin.hosts.local.log.sync", stop)
        with pytest.raises(OSError, match="Input/output"):
            Log(tmp_path, sync).begin(1, format_begin("x"))
    assert LogContents(Log(tmp_path)).file is None
    log = Log(tmp_path, sync)
    log.begin(1, format_begin("x"))
    log.close()
    assert LogContents(Log(tmp_path)).file == 1
    assert [path.name for path in tmp_path.iterdir()] == ["00000001.log"]


def test_a_log_resumes_after_its_last_complete_record(tmp_path: Path) -> None:
    log, _ = _write_log(tmp_path)
    log.close()
    *_, last = Log(tmp_path).read_records(1, last=True)
    log = Log(tmp_path)
    log.resume(1, last.end)
    log.append(PLAN, b"plan")
    log.close()  # it was never flushed
    assert len(_read_kinds(tmp_path)) == 7
    log = Log(tmp_path)
    log.resume(1, last.end)
    location = log.append(PLAN, b"plan")
    assert log.read(location) == b"plan"
    log.flush(disk=True)
    assert _read_kinds(tmp_path)[-1] == PLAN


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    log, locations = _write_log(tmp_path)
    log.close()
    log.get_path(1).unlink()
    with pytest.raises(StateCorruptedError, match=r"00000001\.log is missing"):
        Log(tmp_path).read(locations[0])


def test_a_log_is_readable_after_the_disk_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = _write_log(tmp_path)
    *_, last = Log(tmp_path).read_records(1, last=True)

    def write_half(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    log.append(PLAN, b"plan")
    with monkeypatch.context() as patch:
        patch.setattr("muntin.hosts.local.log.write", write_half)
        with pytest.raises(OSError, match="No space"):
            log.flush(disk=False)
    # A query that ends by an error closes its log in order, when the disk may have room again.
    log.end()
    log.close()
    assert [*Log(tmp_path).read_records(1, last=True)][-1] == last


def test_a_log_that_is_resumed_has_its_file_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = _write_log(tmp_path)
    log.close()
    flushed: list[Path] = []

    def flush(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))

    monkeypatch.setattr("muntin.hosts.local.log.os.fsync", flush)
    log = Log(tmp_path)
    log.resume(1, 10)
    log.close()
    assert flushed == [tmp_path]
