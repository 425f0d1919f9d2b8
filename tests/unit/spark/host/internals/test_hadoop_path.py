"""Paths in Hadoop's file systems, with a stand-in for the JVM that counts what it is asked for."""

from __future__ import annotations

from types import SimpleNamespace as Names
from typing import Any

import pytest

from muntin.spark.host.internals.hadoop_path import HadoopPath

MODULE = "muntin.spark.host.internals.hadoop_path."


def test_a_path_below_another_is_in_its_file_system_without_a_look_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = []

    class JavaPath:
        def __init__(self, text: str) -> None:
            self.text = text

        def toString(self) -> str:  # noqa: N802
            return self.text

        def getFileSystem(self, settings: object) -> Any:  # noqa: N802
            looked_up.append(self.text)
            return Names(exists=lambda path: path.text == "s3a://bucket/a/b:c")

    jvm = Names(org=Names(apache=Names(hadoop=Names(fs=Names(Path=JavaPath)))))
    monkeypatch.setattr(MODULE + "classes_of", lambda _: jvm)
    monkeypatch.setattr(MODULE + "hadoop_settings", lambda _: None)
    spark: Any = None
    bucket = HadoopPath(spark, "s3a://bucket")
    below = bucket / "a" / "b:c"
    assert (str(bucket), str(below)) == ("s3a://bucket", "s3a://bucket/a/b:c")
    assert below.exists()
    assert not bucket.exists()
    assert looked_up == ["s3a://bucket"]
