"""Spark's Python daemon, which imports all modules of muntin's workers in advance.

Workers are forked from the daemon. Importing pandas, Polars and Arrow takes seconds of CPU, and a
query starts a worker for each task and Python stage. With this daemon they are imported once.

A worker collects garbage after each task, and would visit all imported objects. That takes some
70 ms, more than the work of a small batch. Frozen objects aren't visited, and their memory pages
stay shared between the workers.
"""

from __future__ import annotations

# ruff: noqa: E402, F401  (what is imported first decides where the rest is imported from)
import gc

from muntin.spark.host.internals.python_start import prefer_installed

prefer_installed()

import pandas  # transformWithState imports it in each worker
import pyspark.worker
from pyspark.daemon import manager

import muntin.engine.joins.operator
import muntin.engine.windows.operator
import muntin.spark.host.processor
from muntin.spark.host.internals.pipes import (
    end_quietly,
    ignore_interrupts,
    note_deaths,
    use_private_folder,
)

if __name__ == "__main__":
    end_quietly()
    ignore_interrupts()
    note_deaths()
    use_private_folder()
    gc.collect()
    gc.freeze()
    manager()
