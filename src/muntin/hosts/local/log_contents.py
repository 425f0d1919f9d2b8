"""Reads a checkpoint's log: the last commit, a planned batch and the locations of blobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muntin.hosts.local.log import (
    BEGIN,
    BLOB,
    COMMIT,
    PLAN,
    Location,
    Log,
    LogRecord,
    make_damage_error,
)
from muntin.model.errors import StateCorruptedError
from muntin.sources.source import SourceOffsets
from muntin.state.blobs import missing_blob_error
from muntin.state.manifest import parse_manifest

LOG_FORMAT = 1
# Bytes before a blob in its record: the numbers of its operator, its shard and the blob.
NUMBER_BYTES = 24

ShardKey = tuple[int, int]
"""The numbers of an operator and of one of its shards."""
BlobKey = tuple[int, int, int]
"""The numbers of an operator, of one of its shards and of a blob."""


@dataclass(frozen=True)
class PlannedBatch:
    """A batch before it runs.

    Attributes:
        number: Its number, from 0.
        now: The clock of the machine, microseconds.
        ends: The end offset of each source.
        final: Whether no message comes after it.
        ends_run: Whether it is the last batch of the run, and so emits what waits for the clock.
        wall: The clock of time-driven policies, microseconds; `None` is `now`. A batch that Spark
            has planned has its own.
    """

    number: int
    now: int
    ends: tuple[SourceOffsets, ...]
    final: bool = False
    ends_run: bool = False
    wall: int | None = None


@dataclass(frozen=True)
class Commit:
    """The last commit of a query.

    Attributes:
        number: The number of the last batch; -1 before the first.
        ends: The end offset of each source; empty before the first batch.
        final: Whether the input has ended.
        progress: The figures of the query, as plain JSON.
        shards: The number of shards of each operator.
        manifests: The manifest of each shard that has one.
    """

    number: int = -1
    ends: tuple[SourceOffsets, ...] = ()
    final: bool = False
    progress: dict[str, Any] = field(default_factory=dict)
    shards: tuple[int, ...] = ()
    manifests: dict[ShardKey, str] = field(default_factory=dict)


class LogContents:
    """The contents of a log; reading changes nothing, so a query may write at the same time.

    Args:
        log: The log.

    Attributes:
        identity: A text that distinguishes the query from those with another checkpoint.
        last_commit: The last commit.
        planned: The batch that was planned and not committed, if there is one.
        file: The last file; `None` where there is none.
        end: The position after its last commit or plan.

    Raises:
        StateCorruptedError: When the log is damaged.
    """

    def __init__(self, log: Log) -> None:
        self.identity = ""
        self.last_commit = Commit()
        self.planned: PlannedBatch | None = None
        self.file: int | None = None
        self.end = 0
        self._log = log
        self._locations: dict[BlobKey, Location] = {}
        # The last commit, and the last plan behind it; earlier ones aren't parsed.
        self._newest: dict[bytes, LogRecord] = {}
        files = log.list_files()
        for file in files:
            self.file, self.end = file, self._replay(file, last=file == files[-1])
        for record in self._newest.values():
            self._apply(record)

    def read_blob(self, key: BlobKey) -> bytes:
        """Return a committed blob.

        Raises:
            StateCorruptedError: When there is none, or it is damaged.
        """
        if key not in self._locations:
            raise missing_blob_error(key[2])
        return self._log.read(self._locations[key])[NUMBER_BYTES:]

    def list_blob_sizes(self) -> dict[BlobKey, int]:
        """Return the size in bytes of each blob that the manifests name."""
        return {
            key: location.length - NUMBER_BYTES
            for key, location in self.locate_live_blobs().items()
        }

    def locate_live_blobs(self) -> dict[BlobKey, Location]:
        """Return the location of each blob that the manifests name."""
        live: set[BlobKey] = set()
        for (operator, shard), text in self.last_commit.manifests.items():
            for run in parse_manifest(text).runs():
                live |= {(operator, shard, number) for number in run.blobs}
        return {key: location for key, location in self._locations.items() if key in live}

    def _replay(self, file: int, *, last: bool) -> int:
        """Apply the records of a file; in the last file, ignore blobs after the last commit.

        Returns:
            The position after its last record that isn't a blob.
        """
        end, locations = 0, dict[BlobKey, Location]()
        for record in self._log.read_records(file, last=last):
            if record.kind == BLOB:
                numbers = record.body[:NUMBER_BYTES]
                operator, shard, number = (
                    int.from_bytes(numbers[i : i + 8], "little") for i in (0, 8, 16)
                )
                locations[operator, shard, number] = record.location
                continue
            if record.kind == BEGIN:
                self._apply(record)
            elif record.kind == COMMIT:
                self._newest = {COMMIT: record}
            else:
                self._newest[record.kind] = record
            self._locations |= locations
            end, locations = record.end, {}
        if not end:
            raise make_damage_error(self._log.get_path(file), 0)
        if not last:
            self._locations |= locations
        return end

    def _apply(self, record: LogRecord) -> None:
        """Apply a record that isn't a blob.

        Raises:
            StateCorruptedError: When it isn't what muntin writes, although its checksum is right.
        """
        try:
            if record.kind == BEGIN:
                self._check_begin(record)
            elif record.kind == PLAN:
                self.planned = _parse_plan(json.loads(record.body))
            elif record.kind == COMMIT:
                self.last_commit, self.planned = parse_commit(json.loads(record.body))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            file, start = record.location.file, record.location.start
            raise StateCorruptedError(
                f"{self._log.get_path(file)} holds no record of muntin's at byte {start:,}: "
                "restore the checkpoint from a copy, or start with a new folder"
            ) from error

    def _check_begin(self, record: LogRecord) -> None:
        begin = json.loads(record.body)
        if begin.get("format") != LOG_FORMAT:
            path = self._log.get_path(record.location.file)
            raise StateCorruptedError(
                f"{path} has format {begin.get('format')}, this muntin reads format {LOG_FORMAT}: "
                "use the muntin that wrote it, or start with a new folder"
            )
        self.identity = begin["identity"]


def format_begin(identity: str) -> bytes:
    """Return the body of the record that begins a file."""
    return json.dumps({"format": LOG_FORMAT, "identity": identity}).encode()


def format_blob(key: BlobKey, blob: bytes) -> bytes:
    """Return the body of a blob's record."""
    return b"".join(number.to_bytes(8, "little") for number in key) + blob


def format_commit(commit: Commit, planned: PlannedBatch | None) -> dict[str, Any]:
    """Return a commit, and the batch that was planned after it, as plain JSON."""
    manifests = [[*shard, text] for shard, text in commit.manifests.items()]
    plan = None if planned is None else vars(planned)
    return {**vars(commit), "manifests": manifests, "planned": plan}


def parse_commit(stored: Mapping[str, Any]) -> tuple[Commit, PlannedBatch | None]:
    """Parse the JSON that `format_commit` returns."""
    manifests = {(operator, shard): text for operator, shard, text in stored["manifests"]}
    commit = Commit(
        stored["number"],
        tuple(stored["ends"]),
        stored["final"],
        stored["progress"],
        tuple(stored["shards"]),
        manifests,
    )
    return commit, _parse_plan(stored["planned"]) if stored["planned"] else None


def _parse_plan(stored: Mapping[str, Any]) -> PlannedBatch:
    return PlannedBatch(**{**stored, "ends": tuple(stored["ends"])})
