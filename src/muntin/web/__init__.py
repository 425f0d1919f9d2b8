"""Serves HTTP beside running queries: who may ask, and how much of it at once."""
