"""Spark's Python daemon, with what every worker of muntin imports already imported.

Workers are forked from the daemon. Importing pandas, Polars and Arrow takes seconds of CPU, and a
query starts a worker for each task and Python stage: done here it is done once.
"""

from __future__ import annotations

import pandas  # noqa: F401  (transformWithState imports it in each worker)
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import muntin.spark.processor  # noqa: F401

if __name__ == "__main__":
    manager()
