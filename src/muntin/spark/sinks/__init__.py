"""Sinks of results and rejected messages on Spark."""
