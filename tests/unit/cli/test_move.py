"""Tests of `muntin move` from the local host."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from tests.moved_queries import Folders, hopping, run

from muntin.cli.move import TargetHost, move_checkpoint
from muntin.hosts.seed import FACTS, FOLDER


def test_a_checkpoint_moves_to_spark_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders, old, new = Folders(tmp_path / "in"), tmp_path / "old", tmp_path / "new"
    folders.add(2)
    run(hopping(folders.read), old, tmp_path / "out.duckdb")
    move_checkpoint(old, new, TargetHost.SPARK)
    output = " ".join(capsys.readouterr().out.split())
    assert "continues after batch 1; start the query from it on Spark" in output
    assert (new / FOLDER / FACTS).is_file()
    with pytest.raises(typer.Exit):
        move_checkpoint(old, new, TargetHost.SPARK)
    assert "isn't empty" in " ".join(capsys.readouterr().err.split())
