"""Columnar window operators over Polars frames and a store; no Spark here, and no clock of its own.

A batch goes: ``combine`` (messages to one row a key and pane) → ``operator`` (one shard: keeps
``runs`` in a store, decides with ``firing`` what emits, computes it with ``overlap``). ``oracle``
says the same slowly.
"""
