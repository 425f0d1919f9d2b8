"""An app that is killed at any moment loses no committed events, and counts none twice."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.crash.victim import open_app
from tests.property.tables_model import Happening, WindowModel

KILLS, EVENTS = 12, 6000
VICTIM = Path(__file__).with_name("victim.py")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def fill(folder: Path, dice: random.Random) -> WindowModel:
    """Write the file of views; return a model with the expected counts."""
    model = WindowModel(30.0, 10.0, 60.0, lateness=5.0)
    lines = []
    for number in range(EVENTS):
        is_far_too_late = number > 500 and dice.random() < 0.02
        at = round(number / 10 + (-300 if is_far_too_late else dice.uniform(-20, 5)), 3)
        page, times = dice.choice("abcde"), dice.randint(1, 3)
        lines.append(json.dumps({"page": page, "at": at, "times": times}) + "\n")
        model.add_event(Happening(page, at, "+=", times))
    (folder / "views.jsonl").write_text("".join(lines))
    return model


def run_for(folder: Path, seconds: float) -> bool:
    """Run the victim, and kill it after a while; return whether it had ended."""
    victim = subprocess.Popen([sys.executable, str(VICTIM), str(folder)])
    start_file = folder / "begun"
    previous_start = start_file.read_text() if start_file.exists() else ""
    deadline = time.monotonic() + 120
    while victim.poll() is None and (
        not start_file.exists() or start_file.read_text() == previous_start
    ):
        assert time.monotonic() < deadline, "the victim makes no progress"
        time.sleep(0.005)
    try:
        assert victim.wait(timeout=seconds) == 0
    except subprocess.TimeoutExpired:
        victim.kill()
        victim.wait(timeout=60)
    return (folder / "done").exists()


def test_kills(tmp_path: Path) -> None:
    dice = random.Random(20260102)
    model = fill(tmp_path, dice)
    kills = 0
    while kills < KILLS and not run_for(tmp_path, dice.uniform(0.005, 0.08)):
        kills += 1
    assert kills >= KILLS // 2
    assert run_for(tmp_path, 300)

    running, views, closed = open_app(tmp_path)
    with running:
        live = {
            (page, window.start): value
            for page in "abcde"
            for window, value in views[page].windows().items()
        }
        emitted = [(page, start, value) for page in "abcde" for start, value in closed[page]]
        assert live == model.live
        assert len(emitted) == len(model.closed)
        assert {(page, start): value for page, start, value in emitted} == model.closed
        rejected = sorted((row.value["page"], row.value["at"]) for row in running.rejected)
        assert rejected == sorted((event.key, event.time) for event in model.late)
        assert running.counts == {"seen": EVENTS, "taken": EVENTS, "late": len(model.late)}
