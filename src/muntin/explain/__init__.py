"""Queries in words: what their windows look like, when they speak, and what they cost."""
