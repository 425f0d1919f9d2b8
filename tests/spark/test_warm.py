"""Tests that JVMs load their classes from the archive of ``muntin warm``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.services.machine import QUICK, find_archive

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SESSION = """
import muntin as mt
spark = mt.session(master="local[1]")
print(spark.range(3).count())
spark.stop()
"""


def run(command: list[str], cache: Path, java: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command that sees no archive but those of a cache folder."""
    options = {"SPARK_SUBMIT_OPTS": QUICK, "JAVA_TOOL_OPTIONS": java}
    environment = {**os.environ, **options, "XDG_CACHE_HOME": str(cache)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Return the archive that ``muntin warm`` has stored for the tests, or stores now."""
    if (path := find_archive()) is not None:
        return path
    warmed = run([str(Path(sys.executable).with_name("muntin")), "warm"], tmp_path)
    assert warmed.returncode == 0, warmed.stdout + warmed.stderr
    (path,) = (tmp_path / "muntin").iterdir()
    return path


def test_sessions_map_what_an_earlier_jvm_has_loaded(archive: Path, tmp_path: Path) -> None:
    cache = archive.parents[1]
    logged = f"-Xlog:class+load:file={tmp_path / 'classes'}"
    assert run([sys.executable, "-c", SESSION], cache, logged).stdout.strip() == "3"
    assert (tmp_path / "classes").read_text().count("source: shared objects file (top)") > 3000
    # With other memory, objects have another layout, and the JVM doesn't use the archive.
    big = SESSION.replace('"local[1]"', '"local[1]", spark__driver__memory="40g"')
    without = run([sys.executable, "-c", big], cache)
    assert without.stdout.strip() == "3", without.stderr
