"""Hosts run operators: they give them messages, keep their state, and pass on their rows."""
