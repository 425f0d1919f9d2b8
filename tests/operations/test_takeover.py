"""Tests of a process that is frozen beyond its lease, while another one takes its checkpoint."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.operations.test_first_lines import COLUMNS, put

import muntin as mt
from muntin.hosts import leases
from muntin.hosts.leases import Holder, LocalLeaseFile
from muntin.hosts.local.checkpoint import LogCheckpoint, PlannedBatch
from muntin.model.errors import LeaseLostError

SCRIPT = """
import sys
from tests.operations.test_takeover import start
from muntin.hosts import leases

leases.DURATION = 1.0
try:
    start(sys.argv[1]).await_end()
except Exception as error:
    sys.exit(str(error))
"""


def start(folder: str) -> Any:
    clicks = mt.files(f"{folder}/in/*.jsonl", columns=COLUMNS)
    windows = mt.windowed(clicks, key="k", time="at").tumbling("1 minute").early(each=True)
    return windows.agg(n=mt.count()).start(
        checkpoint=f"{folder}/checkpoint", results=mt.to_parquet(f"{folder}/out")
    )


@pytest.mark.slow
@pytest.mark.parametrize("also", [signal.SIGCONT, signal.SIGTERM])
def test_what_the_other_one_has_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, also: signal.Signals
) -> None:
    put(tmp_path / "in", "1.jsonl", -9)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(command, text=True, stderr=subprocess.PIPE) as first:
        while not list((tmp_path / "out").glob("*/*.parquet")):
            assert first.poll() is None
            time.sleep(0.05)
        first.send_signal(signal.SIGSTOP)
        # A container can't see whether this process still runs.
        monkeypatch.setattr(leases, "_identify_machine", lambda: "a container")
        monkeypatch.setattr(leases, "DURATION", 1.0)
        second = start(str(tmp_path))
        put(tmp_path / "in", "2.jsonl", -8)
        assert second.await_idle(60)
        put(tmp_path / "in", "3.jsonl", -7)
        assert second.await_idle(60)
        first.send_signal(also)
        first.send_signal(signal.SIGCONT)
        _, errors = first.communicate(timeout=60)
    put(tmp_path / "in", "4.jsonl", -6)
    assert second.await_idle(60)
    second.stop()
    if also is signal.SIGCONT:
        assert errors.startswith("the checkpoint was taken over by a query of process ")
    third = start(str(tmp_path))
    assert third.await_idle(60)
    third.stop()
    assert third.progress.counts["seen"] == 4


def test_a_checkpoint_that_was_taken_over_isnt_written_to(tmp_path: Path) -> None:
    """The end of the process, which would append a last record, writes nothing either."""
    checkpoint = LogCheckpoint(str(tmp_path))
    (log,) = tmp_path.glob("*.log")
    LocalLeaseFile(tmp_path).replace(Holder.create().to_text())
    written = log.read_bytes()
    with pytest.raises(LeaseLostError, match="was taken over by"):
        checkpoint.plan(PlannedBatch(0, 0, ()))
    with pytest.raises(LeaseLostError, match="was taken over by"):
        checkpoint.close()
    assert log.read_bytes() == written
