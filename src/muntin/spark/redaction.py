"""Hides secrets in Spark's plans, errors and logs."""

from __future__ import annotations

from pyspark.sql import SparkSession

from muntin.model.secrets import FOR_SPARK

REDACTION_SETTING = "spark.sql.redaction.options.regex"


def hide_secrets(spark: SparkSession) -> None:
    """Have Spark hide the values of options that are secrets.

    By default it hides passwords and tokens, but prints private keys.
    """
    pattern = spark.conf.get(REDACTION_SETTING, None) or ""
    if FOR_SPARK not in pattern:
        spark.conf.set(REDACTION_SETTING, f"{pattern}|{FOR_SPARK}" if pattern else FOR_SPARK)
