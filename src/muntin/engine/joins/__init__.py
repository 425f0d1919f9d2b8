"""Joins of two streams, by distance, window or session."""
