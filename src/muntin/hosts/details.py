"""The log file of this process, for traces that say more than the line that names the cause."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from muntin.model.secrets import redact

_FILES: list[Path] = []


def append_details(text: str) -> Path | None:
    """Append a text without its secrets to a file that only this user can read.

    Returns:
        The file, which is created by the first text; ``None`` if it can't be written.
    """
    try:
        if not _FILES:
            handle, path = tempfile.mkstemp(prefix="muntin-", suffix=".log")
            os.close(handle)
            _FILES.append(Path(path))
        with open(_FILES[0], "a", errors="replace") as file:
            file.write(redact(text))
    except OSError:
        return None
    return _FILES[0]
