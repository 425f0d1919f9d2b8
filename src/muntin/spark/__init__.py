"""Windows of Spark's DataFrames: the only folder that imports pyspark.

A batch goes: messages (``sources``) → ``host.task`` (before the shuffle, one small blob per task
and shard) → ``host.processor`` (a shard in Spark's state store) → blobs of results and rejected
messages → rows again (``sinks``). ``inspect`` reads checkpoints from outside.
"""

from muntin.spark.requirements import check_spark

check_spark()
