"""Tests that one query at a time runs from a checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muntin.hosts import leases
from muntin.hosts.leases import FILE, Holder, LocalLeaseFile, acquire_lease, read_waits
from muntin.model.errors import LeaseLostError, OptionError


@pytest.fixture
def lease_file(tmp_path: Path) -> LocalLeaseFile:
    return LocalLeaseFile(tmp_path / "checkpoint")


def create_ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    return child.pid


def test_a_second_query_is_refused_with_the_first_ones_process_host_and_start(
    lease_file: LocalLeaseFile, tmp_path: Path
) -> None:
    lease = acquire_lease(lease_file, "checkpoints/views")
    holder = Holder.parse((tmp_path / "checkpoint" / FILE).read_text())
    assert holder is not None
    with pytest.raises(OptionError) as refusal:
        acquire_lease(lease_file, "checkpoints/views")
    assert str(refusal.value) == (
        f"checkpoint='checkpoints/views' is in use by a query of process {os.getpid()} on "
        f"{holder.host}, started at {holder.started}; "
        "stop that query first, or give this one a folder of its own"
    )
    lease.check()
    lease.release()
    acquire_lease(lease_file, "checkpoints/views").release()
    assert [*tmp_path.iterdir()] == []


def test_another_process_is_refused_while_the_first_lives_and_not_when_it_was_killed(
    lease_file: LocalLeaseFile, tmp_path: Path
) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from muntin.hosts.leases import LocalLeaseFile, acquire_lease\n"
        "lease = acquire_lease(LocalLeaseFile(Path(sys.argv[1])), 'x')\n"
        "print('acquired', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "checkpoint")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "acquired\n"
        with pytest.raises(OptionError, match=f"process {child.pid} on "):
            acquire_lease(lease_file, "x")
        child.kill()
    acquire_lease(lease_file, "x").release()


def test_a_later_process_with_the_same_number_does_not_hold_the_lease(
    lease_file: LocalLeaseFile,
) -> None:
    old_holder = replace(Holder.create(), birth="1")
    assert lease_file.create(old_holder.to_text())
    acquire_lease(lease_file, "x").release()


def test_a_lease_of_another_machine_expires_when_nobody_renews_it(
    lease_file: LocalLeaseFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "DURATION", 0.5)
    remote_holder = replace(
        Holder.create(), machine="another", host="db7", process=create_ended_process()
    )
    assert lease_file.create(remote_holder.to_text())
    acquire_lease(lease_file, "x").release()


def test_a_lease_of_another_machine_that_is_renewed_is_respected(
    lease_file: LocalLeaseFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "DURATION", 60.0)
    remote_holder = replace(Holder.create(), machine="another", host="db7", process=41)
    assert lease_file.create(remote_holder.to_text())
    # The other machine renews it while this one waits.
    monkeypatch.setattr(
        time, "sleep", lambda _: lease_file.replace(replace(remote_holder, renewed=1.0).to_text())
    )
    with pytest.raises(OptionError, match="process 41 on db7"):
        acquire_lease(lease_file, "x")


def test_a_lease_that_expired_long_ago_is_taken_at_once(lease_file: LocalLeaseFile) -> None:
    old_holder = replace(Holder.create(), machine="another", renewed=time.time() - 3600)
    assert lease_file.create(old_holder.to_text())
    acquire_lease(lease_file, "x").release()


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"host": "x"})])
def test_an_invalid_lease_expires_like_a_valid_one(
    lease_file: LocalLeaseFile, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "DURATION", 0.3)
    assert lease_file.create(text)
    acquire_lease(lease_file, "x").release()


def test_a_lease_is_renewed(lease_file: LocalLeaseFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "DURATION", 0.1)
    lease = acquire_lease(lease_file, "x")
    first = lease_file.read()
    deadline = time.monotonic() + 30
    while lease_file.read() == first:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    lease.check()
    lease.release()
    assert lease_file.read() is None


def test_a_query_notices_that_its_checkpoint_was_deleted(
    lease_file: LocalLeaseFile, tmp_path: Path
) -> None:
    lease = acquire_lease(lease_file, "x")
    (tmp_path / "checkpoint" / FILE).unlink()
    (tmp_path / "checkpoint").rmdir()
    with pytest.raises(LeaseLostError, match="deleted while the query ran"):
        lease.check()
    lease.release()


def test_a_query_notices_that_another_took_its_checkpoint(lease_file: LocalLeaseFile) -> None:
    lease = acquire_lease(lease_file, "x")
    other_holder = replace(Holder.create(), host="db7", process=41)
    lease_file.replace(other_holder.to_text())
    with pytest.raises(LeaseLostError, match="taken over by a query of process 41 on db7"):
        lease.check()
    lease.release()
    assert lease_file.read() == other_holder.to_text()


def test_a_lease_that_another_query_wrote_isnt_discarded(lease_file: LocalLeaseFile) -> None:
    assert lease_file.create("theirs")
    lease_file.discard("ours")
    assert lease_file.read() == "theirs"
    assert not lease_file.create("ours")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        "9" * 5000,
        json.dumps({**vars(Holder.create()), "process": "../../etc"}),
        json.dumps({**vars(Holder.create()), "renewed": "now"}),
        json.dumps({**vars(Holder.create()), "host": ["db7"]}),
        json.dumps({**vars(Holder.create()), "more": 1}),
    ],
)
def test_a_forged_lease_has_no_holder(text: str) -> None:
    assert Holder.parse(text) is None


def test_the_holder_of_a_lease_writes_no_control_characters() -> None:
    forged_holder = replace(Holder.create(), host="db7\x1b[2J\nerror all is lost")
    assert "db7\\x1b[2J\\nerror" in leases.describe_holder(forged_holder.to_text())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"waits": "waiting for Kafka at h:9092"}, "waiting for Kafka at h:9092"),
        ({"waits": "all is \x1b[2J\nlost"}, r"all is \x1b[2J\nlost"),
        ({"waits": "waiting", "birth": "1"}, ""),
        ({"waits": "waiting", "renewed": 1.0}, ""),
        ({}, ""),
    ],
)
def test_the_waits_of_a_running_query_are_in_its_lease(
    changes: dict[str, Any], expected: str
) -> None:
    assert read_waits(replace(Holder.create(), **changes).to_text()) == expected
    assert read_waits(None) == read_waits("forged") == ""


def test_a_lease_that_cant_be_renewed_logs_one_line(
    lease_file: LocalLeaseFile, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: str) -> None:
        raise OSError("403 for http://me:sesame@s3\n\tat java.base/java.net")

    monkeypatch.setattr(leases, "DURATION", 0.1)
    monkeypatch.setattr(lease_file, "replace", fail)
    lease = acquire_lease(lease_file, "x")
    deadline = time.monotonic() + 30
    while not caplog.records:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    lease.release()
    assert caplog.messages[0] == (
        "the lease of a checkpoint can't be renewed (403 for http://me:******@s3); trying again"
    )
    assert "Traceback" not in caplog.text
