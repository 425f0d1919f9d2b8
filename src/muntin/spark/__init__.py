"""The PySpark door: the only folder that imports pyspark.

A batch goes: messages → ``combiner`` (before the shuffle, one small blob a task and bucket) →
``processor`` (one shard a bucket, in Spark's state store) → blobs of results and rejected
messages → rows again.
"""
