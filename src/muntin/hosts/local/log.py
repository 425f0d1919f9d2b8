"""An append-only log of records in files of bounded size, which a crash may truncate anywhere.

A record is a header of fixed size (its kind, its length, checksums of the header and of the body)
and a body. Records are appended to numbered files. Data that was synced to disk is never changed.
Each record states how far the log was synced when the record was written. This distinguishes
damage in synced data from a tail that a crash left incomplete.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from muntin.model.errors import OptionError, StateCorruptedError
from muntin.state.disk import refuse_link

PLAN, BLOB, COMMIT, BEGIN, END = b"P", b"B", b"C", b"L", b"E"
"""The kinds of records: a planned batch, a blob, a commit, the first record of a file, and the
last record that a process writes when it closes the log without a failure."""

_MAGIC = b"MUNT"
# The magic, the kind, the file and the position up to which the log was synced, the length and the
# checksum of the body. The checksum of these fields follows them.
_FIELDS = struct.Struct("<4scQQQI")
_HEADER_BYTES = _FIELDS.size + 4
_SUFFIX = ".log"
# The name of a file until its first record is on disk, so that a log never begins with half of one.
_NEW_FILE = "begin.new"


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a record's body: the number of its file, its first byte and its length."""

    file: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record of a log.

    Attributes:
        kind: One of `PLAN`, `BLOB`, `COMMIT`, `BEGIN` and `END`.
        location: The location of its body.
        synced: The file and the position up to which the log was synced when it was written.
        body: Its body.
    """

    kind: bytes
    location: Location
    synced: tuple[int, int]
    body: bytes

    @property
    def end(self) -> int:
        """The position after it in its file."""
        return self.location.start + self.location.length


class Log:
    """The files of a log, one of which is written.

    Args:
        folder: The folder of the files.
        sync: Whether to sync files to disk.
    """

    def __init__(self, folder: Path, sync: bool = True) -> None:
        self.folder = folder
        self.current = 0
        self.position = 0
        self._sync = sync
        self._synced = (0, 0)
        self._writing: BinaryIO | None = None
        self._pending: list[bytes] = []
        self._reading: dict[int, BinaryIO] = {}
        # Whether a call failed, so that the last record may be incomplete on disk.
        self._has_failed = False

    def get_path(self, file: int) -> Path:
        """Return the path of a file."""
        return self.folder / f"{file:08d}{_SUFFIX}"

    def list_files(self) -> list[int]:
        """Return the numbers of the files, in order.

        Raises:
            StateCorruptedError: When one is a symbolic link.
        """
        paths = [path for path in self.folder.glob(f"*{_SUFFIX}") if path.stem.isdigit()]
        for path in paths:
            refuse_link(path)
        return sorted(int(path.stem) for path in paths if path.is_file())

    def begin(self, file: int, body: bytes) -> None:
        """Begin a file, to which further records are appended."""
        if self._writing is not None:
            self.flush(disk=True)
            self._writing.close()
        new = self.folder / _NEW_FILE
        with self._note_failures():
            new.unlink(missing_ok=True)
            self._writing = open(new, "xb", buffering=0)  # noqa: SIM115
        self.current, self.position = file, 0
        self.append(BEGIN, body)
        self.flush(disk=True)
        with self._note_failures():
            if not self._sync:
                sync(self._writing.fileno())
            new.rename(self.get_path(file))
        self._sync_folder()

    def resume(self, file: int, position: int) -> None:
        """Continue a file at a position, and truncate everything after it."""
        self._writing = open(self.get_path(file), "r+b", buffering=0)  # noqa: SIM115
        self._writing.truncate(position)
        self._writing.seek(position)
        self.current, self.position = file, position
        self.flush(disk=True)
        # Sync the folder, since the process before may have been killed after creating the file.
        self._sync_folder()

    def append(self, kind: bytes, body: bytes) -> Location:
        """Append a record; the next `flush(disk=True)` syncs it to disk."""
        header = _FIELDS.pack(_MAGIC, kind, *self._synced, len(body), zlib.crc32(body))
        self._pending += [header, zlib.crc32(header).to_bytes(4, "little"), body]
        location = Location(self.current, self.position + _HEADER_BYTES, len(body))
        self.position = location.start + location.length
        return location

    def flush(self, *, disk: bool) -> None:
        """Write pending records to the file, and sync it to disk if asked to."""
        assert self._writing is not None
        with self._note_failures():
            if self._pending:
                pending, self._pending = b"".join(self._pending), []
                write(self._writing.fileno(), pending)
            if disk and self._sync:
                position = self.position
                sync(self._writing.fileno())
                self._synced = (self.current, position)

    def read(self, location: Location) -> bytes:
        """Return the body of a record.

        Raises:
            StateCorruptedError: When it is missing or damaged.
        """
        reading = self._reading.get(location.file)
        if reading is None:
            try:
                reading = self._reading[location.file] = open(self.get_path(location.file), "rb")  # noqa: SIM115
            except FileNotFoundError as error:
                raise StateCorruptedError(f"{self.get_path(location.file)} is missing") from error
        if self._pending and location.file == self.current:
            self.flush(disk=False)
        header = os.pread(reading.fileno(), _HEADER_BYTES, location.start - _HEADER_BYTES)
        body = os.pread(reading.fileno(), location.length, location.start)
        parsed = _parse_header(header)
        if parsed is None or parsed[2] != location.length or zlib.crc32(body) != parsed[3]:
            raise make_damage_error(self.get_path(location.file), location.start - _HEADER_BYTES)
        return body

    def read_records(self, file: int, *, last: bool) -> Iterator[LogRecord]:
        """Yield the records of a file, in order.

        Args:
            file: The number of the file.
            last: Whether it is the last file, whose tail a crash may have left incomplete.

        Raises:
            StateCorruptedError: When synced data is damaged.
            OptionError: When this user may not read the file.
        """
        data, position = self._read_file(file), 0
        while position < len(data):
            record = _parse_record(data, file, position)
            if record is None:
                if not last or _was_synced(data, file, position):
                    raise make_damage_error(self.get_path(file), position)
                return
            yield record
            position = record.end

    def _read_file(self, file: int) -> bytes:
        try:
            return self.get_path(file).read_bytes()
        except PermissionError as error:
            problem = f"can't be read: {error.strerror}"
            hint = f"let this user read {self.get_path(file).name}"
            raise OptionError("checkpoint", str(self.folder), problem, hint) from error

    def remove(self, files: Sequence[int]) -> None:
        """Delete files."""
        for file in files:
            if (reading := self._reading.pop(file, None)) is not None:
                reading.close()
            self.get_path(file).unlink()

    def is_in_folder(self) -> bool:
        """Return whether the file that is written is still the one in the folder."""
        assert self._writing is not None
        try:
            return os.path.samestat(
                os.fstat(self._writing.fileno()), os.stat(self.get_path(self.current))
            )
        except FileNotFoundError:
            return False

    def end(self) -> None:
        """Append `END` once everything before it is synced, unless a call has failed."""
        if self._has_failed:
            return
        self.flush(disk=True)
        self.append(END, b"")
        self.flush(disk=True)

    def close(self) -> None:
        """Close all files; records that weren't flushed are lost."""
        for reading in self._reading.values():
            reading.close()
        self._reading = {}
        self._pending = []
        if self._writing is not None:
            self._writing.close()
            self._writing = None

    def _note_failures(self) -> _NotedFailures:
        """Note a failure in the context, after which the log gets no end record."""
        return _NotedFailures(self)

    def _sync_folder(self) -> None:
        if self._sync:
            with self._note_failures():
                descriptor = os.open(self.folder, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)


class _NotedFailures:
    """A context of a log; a class, since each batch writes several times."""

    __slots__ = ("_log",)

    def __init__(self, log: Log) -> None:
        self._log = log

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._log._has_failed = True


def write(descriptor: int, data: bytes) -> None:
    """Write all of the data to a file descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync(descriptor: int) -> None:
    """Sync a file's data to disk."""
    os.fdatasync(descriptor)


def _parse_header(header: bytes) -> tuple[bytes, tuple[int, int], int, int] | None:
    """Return the kind, the synced position, the length and the checksum; `None` if invalid."""
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        return None
    fields, checksum = header[: _FIELDS.size], header[_FIELDS.size : _HEADER_BYTES]
    if zlib.crc32(fields).to_bytes(4, "little") != checksum:
        return None
    _, kind, file, position, length, body = _FIELDS.unpack(fields)
    return kind, (file, position), length, body


def _parse_record(data: bytes, file: int, position: int) -> LogRecord | None:
    """Return the record at a position; `None` where there is no complete one."""
    header = _parse_header(data[position : position + _HEADER_BYTES])
    if header is None:
        return None
    kind, synced, length, checksum = header
    start = position + _HEADER_BYTES
    body = data[start : start + length]
    if len(body) < length or zlib.crc32(body) != checksum:
        return None
    return LogRecord(kind, Location(file, start, length), synced, body)


def _was_synced(data: bytes, file: int, position: int) -> bool:
    """Return whether a later record states that the data at a position was synced."""
    following = data.find(_MAGIC, position + 1)
    while following >= 0:
        header = _parse_header(data[following : following + _HEADER_BYTES])
        if header is not None and header[1] > (file, position):
            return True
        following = data.find(_MAGIC, following + 1)
    return False


def make_damage_error(path: Path, position: int) -> StateCorruptedError:
    """Return the error of a file that is damaged at a position."""
    return StateCorruptedError(
        f"{path} is damaged at byte {position:,}: restore the checkpoint from a copy, or start "
        "with a new folder"
    )
