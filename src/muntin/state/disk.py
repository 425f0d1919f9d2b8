"""Writes files: synced, so that they survive a power cut, and where nobody else leads them."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from muntin.model.errors import StateCorruptedError


def sync_path(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_text(path: Path, text: str) -> None:
    """Replace a file by one with a text, at once; a link at its name is replaced, not followed."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with open(beside, "x") as file:
            file.write(text)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def refuse_link(path: Path) -> None:
    """Refuse a symbolic link within a checkpoint, which would lead a query to other files.

    Raises:
        StateCorruptedError: When it is one.
    """
    if path.is_symlink():
        raise StateCorruptedError(
            f"{path} is a symbolic link, which no query writes. Put what it names in its place, or "
            "restore the checkpoint from a copy"
        )
