"""Tests that a change selects the tests that it changes, that mirror it, or that import it."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.select_tests import select_tests

FILES = {
    "src/muntin/engine/panes.py": "",
    "src/muntin/engine/sessions.py": "from muntin.engine import panes",
    "tests/runners.py": "from muntin.engine.panes import assign_panes",
    "tests/unit/engine/test_panes.py": "import muntin",
    "tests/unit/engine/test_sessions.py": "from muntin.engine import sessions",
    "tests/property/test_engine.py": "from tests.runners import RUNNERS",
    "tests/property/test_names.py": "import os",
}


@pytest.mark.parametrize(
    ("changed", "selected"),
    [
        (["tests/property/test_names.py"], ["tests/property/test_names.py"]),
        (["src/muntin/engine/sessions.py"], ["tests/unit/engine/test_sessions.py"]),
        (
            ["src/muntin/engine/panes.py"],
            ["tests/property/test_engine.py", "tests/unit/engine/test_panes.py"],
        ),
        (["tests/runners.py", "README.md"], ["tests/property/test_engine.py"]),
        (["src/muntin/engine/gone.py"], []),
    ],
)
def test_a_change_selects(changed: list[str], selected: list[str], tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert select_tests(changed, tmp_path) == selected
