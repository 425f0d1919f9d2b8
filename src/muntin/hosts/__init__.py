"""Hosts: what gives operators their messages, keeps their state, and commits their batches."""
