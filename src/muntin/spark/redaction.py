"""Spark's plans, errors and logs without secrets, in whosever session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from muntin.model.secrets import FOR_SPARK

SETTING = "spark.sql.redaction.options.regex"


def hide_secrets(spark: SparkSession) -> None:
    """Have Spark show options without their values where they are secrets.

    By itself it knows passwords and tokens, and prints private keys.
    """
    found = spark.conf.get(SETTING, None) or ""
    if FOR_SPARK not in found:
        spark.conf.set(SETTING, f"{found}|{FOR_SPARK}" if found else FOR_SPARK)
