"""What Spark has no interface for is known in one place."""

from __future__ import annotations

import re
from pathlib import Path

import muntin

_SOURCE = Path(muntin.__file__).parent
_ROOM = _SOURCE / "spark" / "host" / "internals"
_INSIDE = re.compile(
    r"""\b_(jvm|jdf|jsparkSession|jsc|jc|jq|jdataframe|gateway)\b | \b(from|import)\ py4j\b
    | \bvars\(frame\) | /offsets\b | "commits" | \bpyspark(\.\w+)*\._\w""",
    re.VERBOSE,
)


def _touches(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    name = path.relative_to(_SOURCE)
    return [f"{name}:{n}: {line}" for n, line in enumerate(lines, 1) if _INSIDE.search(line)]


def test_sparks_insides_are_touched_in_one_room_only() -> None:
    elsewhere = [path for path in _SOURCE.rglob("*.py") if _ROOM not in path.parents]
    assert len(elsewhere) > 200
    assert [line for path in elsewhere for line in _touches(path)] == []
    assert {path.stem for path in _ROOM.glob("*.py") if _touches(path)} == {
        "archive",
        "checkpoints",
        "executors",
        "folders",
        "hadoop_path",
        "jvm",
        "plans",
    }
