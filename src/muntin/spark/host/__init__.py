"""Runs operators on Spark: tasks before the shuffle, processors after it, and plans."""
