"""A lock on a checkpoint's folder: one query at a time, in all processes of a machine."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from muntin.model.axis import moment
from muntin.model.errors import OptionError

_NAME = "lock"


class CheckpointLock:
    """Held while a query uses a checkpoint; the operating system releases it after a crash.

    Args:
        folder: The folder of the checkpoint.

    Raises:
        OptionError: When another query holds it.
    """

    def __init__(self, folder: Path) -> None:
        self._file = open(folder / _NAME, "a+b")  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = _owner(folder / _NAME)
            self._file.close()
            hint = "stop that query first, or give this one a folder of its own"
            raise OptionError(
                "checkpoint", str(folder), f"is in use by another query{owner}", hint
            ) from None
        self._file.truncate(0)
        about = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        self._file.write(json.dumps(about).encode())
        self._file.flush()

    def release(self) -> None:
        """Let others have it."""
        self._file.close()


def _owner(path: Path) -> str:
    with suppress(OSError, ValueError, KeyError):
        about = json.loads(path.read_bytes())
        since = moment(int(about["since"] * 1_000_000))[:19]
        return f" (process {about['pid']} on {about['host']}, since {since} UTC)"
    return ""
