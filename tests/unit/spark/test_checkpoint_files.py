"""Tests of checkpoints that a query on Spark refuses before it starts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import muntin as mt
from muntin.spark import checkpoint_files


def test_a_checkpoint_of_the_local_host_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = mt.windowed(mt.ticks(10), time="timestamp").tumbling("1 s").agg(n=mt.count())
    windows.start(checkpoint=tmp_path, available_now=True).await_end(30)
    folder = SimpleNamespace(local=tmp_path)
    monkeypatch.setattr(checkpoint_files, "HadoopPath", lambda spark, checkpoint: folder)
    with pytest.raises(mt.SpecChangedError, match="is a checkpoint of a query without Spark"):
        checkpoint_files.acquire(Mock(), str(tmp_path))
