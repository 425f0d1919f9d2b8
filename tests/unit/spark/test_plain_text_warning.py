"""Tests that a cluster without authentication is warned of, once for each session."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from muntin.spark.host import executors
from muntin.spark.host.executors import Executors


@pytest.mark.parametrize(("authenticate", "warnings"), [("false", 1), ("true", 0)])
def test_a_cluster_without_authentication_is_warned_of(
    authenticate: str,
    warnings: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(executors, "_ASKED", set())
    monkeypatch.setattr(executors, "workers_of", lambda spark: "app-1")
    settings = {"spark.authenticate": authenticate}
    for _ in range(2):
        executors_of_session = Executors.__new__(Executors)
        context = SimpleNamespace(getConf=lambda: settings)
        executors_of_session._spark = SimpleNamespace(sparkContext=context)  # type: ignore[assignment]
        executors_of_session._warn_of_plain_text()
    assert len(caplog.messages) == warnings
    assert all(line.startswith("spark.authenticate='false': whoever") for line in caplog.messages)
