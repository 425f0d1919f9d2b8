"""Tests that plans of Spark show no secret of a source in any session."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from muntin.spark.security_settings import REDACTION_SETTING, hide_secrets

SECRETS = {
    "ssl.keystore.key": "-----BEGIN PRIVATE KEY-----\nsesame\n-----END PRIVATE KEY-----",
    "basic.auth.user.info": "me:sesame",
    "fs.s3a.access.key": "sesame",
    "anything": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nsesame",
    "dsn": "postgresql://me:ses/ame@host/db",
}


@pytest.mark.parametrize("before", [None, "(?i)mine"])
def test_plans_show_no_secret(spark: SparkSession, before: str | None) -> None:
    previous = spark.conf.get(REDACTION_SETTING, None)
    # Java's stack must hold the search through text as long as this.
    options = {"rowsPerSecond": "1", "mine": "xyzzy", "long": f"see://{'x$' * 30_000}", **SECRETS}
    try:
        if before is None:
            spark.conf.unset(REDACTION_SETTING)
        else:
            spark.conf.set(REDACTION_SETTING, before)
        for _ in range(2):
            hide_secrets(spark)
        frame = spark.readStream.format("rate").options(**options).load()
        plan = frame._jdf.queryExecution().toString()
        assert "rowsPerSecond=1" in plan.replace("rowspersecond", "rowsPerSecond")
        assert "sesame" not in plan
        assert "ses/ame" not in plan
        assert ("xyzzy" in plan) is (before is None)
    finally:
        if previous is None:
            spark.conf.unset(REDACTION_SETTING)
        else:
            spark.conf.set(REDACTION_SETTING, previous)
