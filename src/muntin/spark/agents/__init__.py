"""Agents with tables on Spark: the query of an app, and the transport of its events."""
