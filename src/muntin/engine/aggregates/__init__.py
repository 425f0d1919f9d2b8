"""Computation of aggregates in columns."""
