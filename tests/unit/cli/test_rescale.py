"""Tests of `muntin rescale` on a checkpoint of the local host."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

import muntin as mt
from muntin.cli.rescale import rescale_checkpoint


def test_a_local_checkpoint_is_rescaled_in_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed = mt.windowed(mt.ticks(100), key="value", time="timestamp").tumbling("1 second")
    query = feed.agg(n=mt.count()).start(checkpoint=tmp_path, available_now=True)
    assert query.await_end(60)
    rescale_checkpoint(tmp_path, 3)
    assert "has 3 shards now" in capsys.readouterr().out
    assert mt.open_state(tmp_path).spec.shards == 3
    with pytest.raises(typer.Exit):
        rescale_checkpoint(tmp_path, 2, to=tmp_path / "other")
    assert "isn't for checkpoints of the local host" in " ".join(capsys.readouterr().err.split())
