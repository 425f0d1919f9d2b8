"""Leases on checkpoints, which ensure that at most one query at a time runs from each.

A lease is a small file in the checkpoint's folder, which the query renews every few seconds. It
names the process, the host, the start time and what the query waits for. A query that ends deletes
its lease. After a crash the lease expires: at once if this machine can tell that the process has
ended, and otherwise when it hasn't been renewed for ``DURATION``. This doesn't depend on the clocks
of two machines.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Protocol

from muntin.hosts.health import describe_waits
from muntin.model.errors import LeaseLostError, OptionError, describe_os_error
from muntin.model.printable import escape_line
from muntin.model.secrets import redact
from muntin.state.disk import replace_text

_LOG = logging.getLogger(__name__)
FILE = "lease.json"
"""The name of a lease in its checkpoint's folder."""
DURATION = 30.0
"""Seconds without a renewal after which a lease has expired."""
_POLL_SECONDS = 0.2
# Age by the wall clock at which a lease has expired without being watched, seconds; the clocks of
# two machines never differ by so much.
_LONG_AGO = 600.0
CHECKPOINT_DELETED = (
    "the checkpoint was deleted while the query ran. Restore its folder from a copy, "
    "or start with a new one"
)
WRITABLE_HINT = "give a folder that this user can write"
_REMEDIES = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EROFS: "mount the disk for writing",
}
CHECKPOINT_REPLACED = (
    "files of the checkpoint were deleted or replaced while the query ran. Restore the folder from "
    "a copy, or start with a new one"
)


class LeaseFile(Protocol):
    """The file of a lease in the file system of the checkpoint."""

    def read(self) -> str | None:
        """Return the text of the file; ``None`` if it doesn't exist."""

    def create(self, text: str) -> bool:
        """Create the file if it doesn't exist, and return whether it was created."""

    def replace(self, text: str) -> None:
        """Replace the file."""

    def discard(self, text: str) -> None:
        """Delete the file if it has this text."""


class LocalLeaseFile:
    """The file of a lease in a local or mounted folder.

    Args:
        folder: The checkpoint, which need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def read(self) -> str | None:
        try:
            return self._path.read_text()
        except FileNotFoundError:
            return None

    def create(self, text: str) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        complete = self._temporary_path()
        complete.write_text(text)
        try:
            # A link makes the file appear with its whole text, and fails if it exists.
            os.link(complete, self._path)
        except FileExistsError:
            return False
        finally:
            complete.unlink()
        return True

    def replace(self, text: str) -> None:
        replace_text(self._path, text)

    def discard(self, text: str) -> None:
        moved = self._temporary_path()
        try:
            self._path.rename(moved)
        except FileNotFoundError:
            return
        if moved.read_text() != text:
            with suppress(FileExistsError):
                os.link(moved, self._path)
        moved.unlink()
        # Delete an empty folder, which the lease of a query that didn't start created.
        with suppress(OSError):
            self._path.parent.rmdir()

    def _temporary_path(self) -> Path:
        return self._path.with_name(f".{FILE}.{secrets.token_hex(6)}")


# The types of a holder's fields, since anybody who writes the checkpoint can write the file.
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("host", "started", "machine", "birth", "nonce", "waits"), str),
    "process": int,
    "renewed": (int, float),
}


@dataclass(frozen=True)
class Holder:
    """The process that runs a query.

    Attributes:
        process: The process id on that machine.
        started: The time at which the query started, in ISO 8601.
        machine: The boot and the process namespace that ``process`` belongs to.
        birth: The start time of the process in ticks since the boot; empty where it isn't known.
        renewed: The time of the last renewal, seconds since the epoch.
        waits: A sentence about what the process waited for then; empty for nothing.
    """

    host: str
    process: int
    started: str
    machine: str
    birth: str
    nonce: str
    renewed: float
    waits: str = ""

    @classmethod
    def create(cls) -> Holder:
        """Return this process as the holder of a new lease."""
        process = os.getpid()
        return cls(
            socket.gethostname(),
            process,
            datetime.now(UTC).isoformat(timespec="seconds"),
            _identify_machine(),
            _read_start_time(process),
            secrets.token_hex(8),
            time.time(),
        )

    @classmethod
    def parse(cls, text: str) -> Holder | None:
        """Parse the text that ``to_text`` returns; return ``None`` for any other text."""
        with suppress(ValueError, TypeError, RecursionError):
            fields = json.loads(text)
            if isinstance(fields, Mapping):
                holder = cls(**fields)
                if all(isinstance(getattr(holder, n), kind) for n, kind in _KINDS.items()):
                    return holder
        return None

    def to_text(self) -> str:
        """Return the holder as JSON."""
        return json.dumps(asdict(self))

    def has_died(self) -> bool:
        """Return whether this machine can tell that the process has ended."""
        if self.machine != _identify_machine():
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return _read_start_time(self.process) != self.birth


class Lease:
    """The lease of a running query, which a thread renews until it is released.

    Args:
        checks_file: Whether the file is cheap enough to read in each batch.
    """

    def __init__(self, file: LeaseFile, holder: Holder, checks_file: bool) -> None:
        self._file = file
        self._holder = holder
        self._checks_file = checks_file
        self._lost = ""
        self._lock = threading.Lock()
        self._released = threading.Event()
        threading.Thread(
            target=self._renew_until_released, daemon=True, name="muntin-lease"
        ).start()

    def check(self) -> None:
        """Refuse to continue if the lease's file was deleted, or is another query's."""
        if self._checks_file and not self._released.is_set():
            with self._lock:
                self._check_file()
        if self._lost:
            raise LeaseLostError(self._lost)

    def release(self) -> None:
        """Delete the lease, so that another query may run from the checkpoint."""
        if self._released.is_set():
            return
        self._released.set()
        with self._lock, suppress(Exception):  # the lease expires by itself
            self._file.discard(self._holder.to_text())

    def _renew_until_released(self) -> None:
        while not self._released.wait(DURATION / 3) and not self._lost:
            try:
                self._renew()
            except Exception as error:
                problem = escape_line(redact(str(error)).partition("\n")[0])
                _LOG.warning(
                    "the lease of a checkpoint can't be renewed (%s); trying again", problem
                )
                _LOG.debug("The lease can't be renewed", exc_info=True)

    def _renew(self) -> None:
        with self._lock:
            self._check_file()
            if not self._lost and not self._released.is_set():
                waits = "; ".join(describe_waits().values())
                renewed = replace(self._holder, renewed=time.time(), waits=waits)
                self._file.replace(renewed.to_text())
                self._holder = renewed

    def _check_file(self) -> None:
        """Read the file, and record why the lease is lost if it isn't this query's any more."""
        text = self._file.read()
        if text is None:
            self._lost = CHECKPOINT_DELETED
        elif (other := Holder.parse(text)) is None or other.nonce != self._holder.nonce:
            self._lost = (
                f"the checkpoint was taken over by {describe_holder(text)} while this process "
                "stood still. Stop that query before this one is started again"
            )


def make_write_error(checkpoint: str, error: OSError, hint: str, again: str) -> OptionError:
    """Return the error of a checkpoint that can't be written.

    Args:
        checkpoint: The folder.
        error: The error of the file system.
        hint: What to do where the error alone doesn't say it.
        again: What to do after a remedy.
    """
    remedy = _REMEDIES.get(error.errno or 0)
    hint = f"{remedy}, {again}" if remedy else hint
    problem = f"can't be written: {describe_os_error(error)}"
    return OptionError("checkpoint", checkpoint, problem, hint)


@contextmanager
def report_write_failures(checkpoint: str, hint: str | None = None) -> Iterator[None]:
    """Raise an error that names the checkpoint if it can't be written in the context.

    Args:
        checkpoint: The folder.
        hint: What to do where the error alone doesn't say it.
    """
    try:
        yield
    except OSError as error:
        again = "and start the query again: the batch is repeated"
        hint = hint or f"correct the rights or the disk, {again}"
        raise make_write_error(checkpoint, error, hint, again) from error


def acquire_lease(file: LeaseFile, checkpoint: str, *, checks_file: bool = True) -> Lease:
    """Acquire the lease on a checkpoint, or refuse while another query runs from it.

    A lease of a process that may be alive is watched until it is renewed or has expired.
    ``checks_file`` says whether each batch may read the file.
    """
    holder = Holder.create()

    def create() -> bool:
        try:
            return file.create(holder.to_text())
        except OSError as error:
            again = "and start the query again"
            raise make_write_error(checkpoint, error, WRITABLE_HINT, again) from error

    while not create():
        text = file.read()
        if text is None:
            continue
        if not _has_expired(file, text):
            problem = f"is in use by {describe_holder(text)}"
            hint = "stop that query first, or give this one a folder of its own"
            raise OptionError("checkpoint", checkpoint, problem, hint)
        file.discard(text)
        holder = replace(holder, renewed=time.time())
    return Lease(file, holder, checks_file)


def read_waits(text: str | None) -> str:
    """Return what the holder of a lease waits for, in a sentence; empty for nothing.

    Args:
        text: The text of the lease's file; ``None`` if there is none.
    """
    holder = None if text is None else Holder.parse(text)
    if holder is None or holder.has_died() or time.time() - holder.renewed > DURATION:
        return ""
    return escape_line(holder.waits)


def describe_holder(text: str) -> str:
    """Return a description of the holder of a lease."""
    holder = Holder.parse(text)
    if holder is None:
        return "a query of another build of muntin"
    return escape_line(
        f"a query of process {holder.process} on {holder.host}, started at {holder.started}"
    )


def _has_expired(file: LeaseFile, text: str) -> bool:
    """Return whether a lease has expired; wait for a renewal where that isn't certain."""
    holder = Holder.parse(text)
    if holder is not None:
        if holder.machine == _identify_machine():
            return holder.has_died()
        if time.time() - holder.renewed > _LONG_AGO:
            return True
    _LOG.warning(
        "Waiting for %.0f s until the lease of %s expires", DURATION, describe_holder(text)
    )
    deadline = time.monotonic() + DURATION
    while time.monotonic() < deadline:
        now = file.read()
        if now != text:
            return now is None
        time.sleep(_POLL_SECONDS)
    return True


@cache
def _identify_machine() -> str:
    """Return an identifier of this machine's boot and of its process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _read_start_time(process: int) -> str:
    """Return the start time of a process in ticks since the boot; empty where it isn't known."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    # The name of the process, in parentheses, may contain spaces and parentheses.
    return stat.rpartition(")")[2].split()[19]
