"""Describes queries in words: their windows, when they emit, and what they cost."""
