"""Tests that a session without Delta is refused, except on Databricks, whose runtime has it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

import muntin as mt
from muntin.spark.sinks import delta


def test_a_session_without_delta_is_refused_except_on_databricks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session: Any = SimpleNamespace(conf={"spark.sql.extensions": ""})
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: session)
    monkeypatch.setattr(delta, "is_connected", lambda _: True)
    writer: Any = delta.DeltaWriter(mt.to_delta("views"))
    schema = StructType().add("n", LongType())
    with pytest.raises(mt.SettingError, match="needs Delta's SQL, which this session lacks"):
        writer.check(schema, None)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.0")
    writer.check(schema, None)
