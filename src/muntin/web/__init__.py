"""Serves HTTP beside running queries, with access control and limits."""
