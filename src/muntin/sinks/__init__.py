"""Sinks: tables, files and topics that results are written to, without Spark."""
