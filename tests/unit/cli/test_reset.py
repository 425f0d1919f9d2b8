"""Tests of `muntin reset-watermark` on a checkpoint of the local host."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import muntin as mt
from muntin.cli.app import build


def run(feed: Path, checkpoint: Path, *times: datetime) -> dict[str, int]:
    lines = [f'{{"key": "a", "at": "{time.isoformat()}"}}\n' for time in times]
    name = f"{len([*feed.iterdir()])}.jsonl"
    (feed / name).write_text("".join(lines))
    messages = mt.files(str(feed / "*.jsonl"), columns="key string, at timestamp")
    windows = mt.windowed(messages, key="key", time="at", max_ahead=None).tumbling("1 minute")
    query = windows.agg(n=mt.count()).start(checkpoint=checkpoint, available_now=True)
    assert query.await_end(60)
    return query.progress.counts


def test_the_command_says_what_it_changes_and_why_names_it(tmp_path: Path) -> None:
    feed, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    feed.mkdir()
    now = datetime.now(UTC)
    ahead = (now + timedelta(days=1)).replace(second=0, microsecond=0)
    run(feed, checkpoint, now - timedelta(minutes=3), ahead)
    assert run(feed, checkpoint, now) == {"seen": 3, "counted": 2, "late": 1}
    why = ["why", str(checkpoint), "--key", "a", "--at", now.isoformat()]
    explanation = CliRunner().invoke(build(), why).output
    assert "right messages are late" in explanation
    assert "muntin reset-watermark sets it back" in explanation
    command = ["reset-watermark", str(checkpoint), "--to", (now - timedelta(minutes=2)).isoformat()]
    dry_run = CliRunner().invoke(build(), [*command, "--dry-run"])
    assert dry_run.exit_code == 0
    assert f"watermark: {ahead} becomes {now - timedelta(minutes=2)}" in dry_run.output
    assert "1 messages were late so far and stay rejected" in " ".join(dry_run.output.split())
    assert "batch 1 is the last one; nothing was changed" in " ".join(dry_run.output.split())
    assert mt.open_state(checkpoint).watermark == ahead
    result = CliRunner().invoke(build(), command)
    assert "start the query from" in result.output
    assert mt.open_state(checkpoint).watermark == now - timedelta(minutes=2)
    assert "reset-watermark" not in CliRunner().invoke(build(), why).output
    assert run(feed, checkpoint, now) == {"seen": 4, "counted": 3, "late": 1}


@pytest.mark.parametrize(
    ("to", "problem"),
    [("noon", "isn't a point in time"), ("2999-01-01", "isn't before a watermark")],
)
def test_a_time_that_does_not_fit_ends_the_command(tmp_path: Path, to: str, problem: str) -> None:
    feed, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    feed.mkdir()
    run(feed, checkpoint, datetime.now(UTC))
    result = CliRunner().invoke(build(), ["reset-watermark", str(checkpoint), "--to", to])
    assert result.exit_code == 1
    assert problem in " ".join(result.output.split())
