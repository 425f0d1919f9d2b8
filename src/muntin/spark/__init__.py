"""Runs queries over Spark's DataFrames; the only package that imports pyspark.

A batch passes these steps: messages (``sources``) → ``host.task`` (before the shuffle, one small
blob per task and shard) → ``host.processor`` (a shard in Spark's state store) → blobs of results
and rejected messages → rows (``sinks``). ``inspect`` reads checkpoints from other processes.
"""

from muntin.spark.requirements import check_spark

check_spark()
