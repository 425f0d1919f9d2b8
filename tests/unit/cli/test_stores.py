"""Tests that checkpoints in an object store are opened through Spark, with its settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

from muntin.cli.app import build

FOLDER = "s3a://lake/checkpoints/views"
CONF = ["--conf", "spark.hadoop.fs.s3a.endpoint=http://h:9000"]


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Record the session and the folder that a command opens."""
    calls: dict[str, Any] = {}

    @contextmanager
    def session(console: Any, name: str, progress: str, **settings: str) -> Iterator[Any]:
        calls["settings"] = settings
        yield MagicMock()

    def take(*arguments: Any, **options: Any) -> Any:
        calls["folder"] = next(each for each in arguments if isinstance(each, str))
        raise SystemExit(7)

    monkeypatch.setattr("muntin.cli.checkpoints.open_session", session)
    monkeypatch.setattr("muntin.dataframe.state.read_checkpoint", take)
    monkeypatch.setattr("muntin.dataframe.reset.reset_watermark", take)
    monkeypatch.setattr("muntin.spark.rescale.rescale_in_place", take)
    return calls


@pytest.mark.parametrize(
    "command",
    [["inspect"], ["why"], ["rescale", "--shards", "2"], ["reset-watermark", "--to", "2026-01-01"]],
    ids=lambda command: command[0],
)
def test_a_checkpoint_in_a_store_is_opened_with_settings(
    command: list[str], opening: dict[str, Any]
) -> None:
    name, *options = command
    result = CliRunner().invoke(build(), [name, FOLDER, *options, *CONF])
    assert result.exit_code == 7, result.output
    assert opening == {
        "folder": FOLDER,
        "settings": {"spark.hadoop.fs.s3a.endpoint": "http://h:9000"},
    }


def test_a_folder_that_doesnt_exist_is_named() -> None:
    result = CliRunner().invoke(build(), ["rescale", "nowhere", "--shards", "2"])
    assert result.exit_code == 1
    assert "CHECKPOINT='nowhere' isn't a folder" in result.output
