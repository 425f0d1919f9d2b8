"""``muntin warm``: the JVM of a later session takes its classes out of the archive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SESSION = """
import muntin as mt
spark = mt.session(master="local[1]")
print(spark.range(3).count())
spark.stop()
"""


def run(command: list[str], cache: Path, java: str = "") -> subprocess.CompletedProcess[str]:
    around = {**os.environ, "XDG_CACHE_HOME": str(cache), "JAVA_TOOL_OPTIONS": java}
    return subprocess.run(command, env=around, capture_output=True, text=True, timeout=280)


def shared(log: Path) -> int:
    return log.read_text().count("source: shared objects file (top)")


def test_sessions_map_what_an_earlier_jvm_has_loaded(tmp_path: Path) -> None:
    logged = f"-Xlog:class+load:file={tmp_path / 'classes'}"
    warmed = run([str(Path(sys.executable).with_name("muntin")), "warm"], tmp_path)
    assert warmed.returncode == 0, warmed.stdout + warmed.stderr
    (kept,) = (tmp_path / "muntin").iterdir()
    assert kept.suffix == ".jsa"
    assert run([sys.executable, "-c", SESSION], tmp_path, logged).stdout.strip() == "3"
    assert shared(tmp_path / "classes") > 3000
    # With other memory, objects have another form, and the JVM goes on without the archive.
    big = SESSION.replace('"local[1]"', '"local[1]", spark__driver__memory="40g"')
    without = run([sys.executable, "-c", big], tmp_path)
    assert without.stdout.strip() == "3", without.stderr
