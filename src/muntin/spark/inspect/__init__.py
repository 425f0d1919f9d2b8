"""Reads the checkpoints of queries on Spark from other processes."""
