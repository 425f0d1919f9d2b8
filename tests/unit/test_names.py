"""Tests of the public names of ``muntin``: all of them, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import muntin as mt


def test_completion_shows_what_there_is() -> None:
    names = dir(mt)
    assert {"windowed", "join", "session", "sql", "count", "rows", "OptionError"} <= set(names)
    assert not {"Any", "TYPE_CHECKING", "annotations", "model"} & set(names)
    assert sorted(mt.__all__) == names
    assert [name for name in names if not hasattr(mt, name)] == []


def test_a_name_of_another_engine_says_what_it_is_called_here() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'avg'; it is muntin\.mean here"):
        _ = mt.avg
    with pytest.raises(AttributeError, match=r"has no attribute 'windows'$"):
        _ = mt.windows


@pytest.mark.slow
def test_type_checkers_know_the_names(tmp_path: Path) -> None:
    used = tmp_path / "used.py"
    used.write_text("import muntin as mt\nreveal_type(mt.count())\nmt.to_delta(1)\nmt.nothing\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path), str(used)],
        text=True,
        capture_output=True,
    )
    said = [line.partition(":")[2] for line in done.stdout.splitlines()]
    assert [line for line in said if "aggregate.Aggregate" in line]
    assert [line for line in said if '"to_delta" has incompatible type "int"' in line]
    assert [line for line in said if 'has no attribute "nothing"' in line]
