"""Agents with tables on Spark: the query of an app, and how its events reach the workers."""
