"""Tests that a worker whose reader has left ends silently; Spark reports other failures."""

from __future__ import annotations

import socket

import pyspark.daemon
import pytest

from muntin.spark.host.internals import pipes


@pytest.mark.parametrize(("raised", "code"), [(None, 0), (BrokenPipeError(), 1)])
def test_a_reader_that_leaves_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, raised: Exception | None, code: int
) -> None:
    monkeypatch.setattr(pyspark.daemon, "worker", _make_worker(raised))
    pipes.end_quietly()
    assert pyspark.daemon.worker(socket.socket(), True) == code


def test_other_failures_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark.daemon, "worker", _make_worker(ConnectionResetError()))
    pipes.end_quietly()
    with pytest.raises(ConnectionResetError):
        pyspark.daemon.worker(socket.socket(), True)


def _make_worker(raised: Exception | None) -> pipes.Worker:
    def worker(sock: socket.socket, authenticated: bool) -> int:
        sock.close()
        if raised is not None:
            raised.add_note(f"authenticated: {authenticated}")
            raise raised
        return 0

    return worker
