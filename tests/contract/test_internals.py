"""Tests that only one package uses Spark's internals."""

from __future__ import annotations

import re
from pathlib import Path

import muntin

_SOURCE = Path(muntin.__file__).parent
_INTERNALS = _SOURCE / "spark" / "host" / "internals"
_USE = re.compile(
    r"""\b_(jvm|jdf|jsparkSession|jsc|jc|jq|jdataframe|gateway)\b | \b(from|import)\ py4j\b
    | \bvars\(frame\) | /offsets\b | "commits" | \bpyspark(\.\w+)*\._\w""",
    re.VERBOSE,
)


def _find_uses(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    name = path.relative_to(_SOURCE)
    return [f"{name}:{n}: {line}" for n, line in enumerate(lines, 1) if _USE.search(line)]


def test_sparks_insides_are_touched_in_one_room_only() -> None:
    other_files = [path for path in _SOURCE.rglob("*.py") if _INTERNALS not in path.parents]
    assert len(other_files) > 200
    assert [line for path in other_files for line in _find_uses(path)] == []
    assert {path.stem for path in _INTERNALS.glob("*.py") if _find_uses(path)} == {
        "archive",
        "checkpoints",
        "executors",
        "folders",
        "hadoop_path",
        "jvm",
        "plans",
    }
