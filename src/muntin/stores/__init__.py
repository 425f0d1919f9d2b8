"""Stores for what windows remember; nothing in here knows Spark or the engine."""
