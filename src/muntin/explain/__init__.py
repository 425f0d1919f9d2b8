"""Queries in words: what their windows look like, when they emit, and what they cost."""
