"""Hides secrets in Spark's plans, errors and logs."""

from __future__ import annotations

from pyspark.sql import SparkSession

from muntin.model.secrets import FOR_SPARK

SETTING = "spark.sql.redaction.options.regex"


def hide_secrets(spark: SparkSession) -> None:
    """Have Spark hide the values of options that are secrets.

    By default it hides passwords and tokens, but prints private keys.
    """
    found = spark.conf.get(SETTING, None) or ""
    if FOR_SPARK not in found:
        spark.conf.set(SETTING, f"{found}|{FOR_SPARK}" if found else FOR_SPARK)
