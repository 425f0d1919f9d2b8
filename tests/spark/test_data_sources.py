"""Tests that muntin's sources in Python are registered, and that Spark finds those of others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
from pyspark.sql.datasource import DataSource, DataSourceReader

class {name}(DataSource):
    @classmethod
    def name(cls):
        return {called!r}
    def schema(self):
        return "n int"
    def reader(self, schema):
        class Reader(DataSourceReader):
            def read(self, partition):
                yield ({row},)
        return Reader()
"""
SCRIPT = """
import muntin as mt
from muntin.spark.host.internals.data_sources import register
{source}
spark = mt.session(master="local[1]")
register(spark, Mine)
manager = "org.apache.spark.sql.execution.datasources.DataSourceManager$"
known = spark._jvm.java.lang.Class.forName(manager).getField("MODULE$").get(None)
print("searched", known.dataSourceBuilders().isEmpty() or known.dataSourceBuilders().get().size())
print([spark.read.format(name).load().collect()[0].n for name in {names}])
"""


@pytest.mark.slow
@pytest.mark.parametrize("offered", [False, True])
def test_sources_that_modules_offer_are_found(offered: bool, tmp_path: Path) -> None:
    """Spark's search is skipped only if no module may offer a source."""
    if offered:
        module = SOURCE.format(name="DefaultSource", called="theirs", row=2)
        (tmp_path / "pyspark_theirs.py").write_text(module)
    names = ["mine", "theirs"] if offered else ["mine"]
    mine = SOURCE.format(name="Mine", called="mine", row=1)
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(source=mine, names=names)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [tmp_path, *sys.path[1:]]))},
        capture_output=True,
        text=True,
        check=True,
    )
    first_line = ["searched 1" if offered else "searched 0"]
    assert result.stdout.splitlines() == [*first_line, str([1, 2][: len(names)])]
