"""Frames as bytes and back: Arrow IPC in an envelope. No pickle is ever written or read."""

from __future__ import annotations

import io

import polars as pl

from muntin.state.envelope import seal, unseal

_MAGIC = b"MNTN"


def encode(frame: pl.DataFrame) -> bytes:
    """Write a frame as one blob."""
    buffer = io.BytesIO()
    frame.write_ipc_stream(buffer)
    return seal(_MAGIC, buffer.getvalue())


def decode(blob: bytes) -> pl.DataFrame:
    """Read a blob that ``encode`` wrote.

    Raises:
        StateCorruptedError: When it isn't one, was written by a newer format, was cut or changed.
    """
    body = unseal(_MAGIC, blob, "a stored blob", "one of muntin's")
    return pl.read_ipc_stream(io.BytesIO(body))
