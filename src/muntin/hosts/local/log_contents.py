"""What a checkpoint's log says: the last commit, a batch that was planned, and where blobs lie."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muntin.hosts.local.log import BEGIN, BLOB, COMMIT, PLAN, Log, Place, Record
from muntin.model.errors import StateCorruptedError
from muntin.sources.source import SourceOffsets
from muntin.state.blobs import missing_blob_error
from muntin.state.manifest import parse_manifest

FORMAT = 1
# What stands before a blob in its record: its operator, its shard, its number.
NUMBER_BYTES = 24

Shard = tuple[int, int]
"""The numbers of an operator and of one of its shards."""
BlobKey = tuple[int, int, int]
"""The numbers of an operator, of one of its shards and of a blob."""


@dataclass(frozen=True)
class PlannedBatch:
    """A batch before it runs.

    Attributes:
        number: Its number, from 0.
        now: The clock of the machine, microseconds.
        ends: How far each source is read.
        final: Whether no message comes after it.
        ends_run: Whether the run ends with it, so that it emits what waits for the clock.
    """

    number: int
    now: int
    ends: tuple[SourceOffsets, ...]
    final: bool = False
    ends_run: bool = False


@dataclass(frozen=True)
class Committed:
    """What a query has done.

    Attributes:
        number: The number of the last batch; -1 before the first.
        ends: How far each source was read; empty before the first batch.
        final: Whether the input has ended.
        progress: The figures of the query, as plain JSON.
        shards: How many shards each operator has.
        manifests: The manifest of each shard that has one.
    """

    number: int = -1
    ends: tuple[SourceOffsets, ...] = ()
    final: bool = False
    progress: dict[str, Any] = field(default_factory=dict)
    shards: tuple[int, ...] = ()
    manifests: dict[Shard, str] = field(default_factory=dict)


class LogContents:
    """What the files of a log say; reading changes nothing, so a query may write meanwhile.

    Args:
        log: The log.

    Attributes:
        identity: Distinguishes the query from every query with another checkpoint.
        committed: What was committed last.
        planned: A batch that was planned and not committed.
        file: The last file that is whole at its begin; `None` where there is none.
        end: The position behind its last commit or plan.

    Raises:
        StateCorruptedError: When something is damaged.
    """

    def __init__(self, log: Log) -> None:
        self.identity = ""
        self.committed = Committed()
        self.planned: PlannedBatch | None = None
        self.file: int | None = None
        self.end = 0
        self._log = log
        self._places: dict[BlobKey, Place] = {}
        files = log.files()
        for file in files:
            end = self._replay(file, last=file == files[-1])
            # A file without its begin was cut off when it was begun.
            if end:
                self.file, self.end = file, end

    def blob(self, key: BlobKey) -> bytes:
        """A blob that was committed.

        Raises:
            StateCorruptedError: When there is none, or it is damaged.
        """
        if key not in self._places:
            raise missing_blob_error(key[2])
        return self._log.read(self._places[key])[NUMBER_BYTES:]

    def sizes(self) -> dict[BlobKey, int]:
        """How many bytes each blob has that the manifests name."""
        return {key: place.length - NUMBER_BYTES for key, place in self.live_places().items()}

    def live_places(self) -> dict[BlobKey, Place]:
        """Where the blobs lie that the manifests name."""
        live: set[BlobKey] = set()
        for (operator, shard), text in self.committed.manifests.items():
            for run in parse_manifest(text).runs():
                live |= {(operator, shard, number) for number in run.blobs}
        return {key: place for key, place in self._places.items() if key in live}

    def _replay(self, file: int, *, last: bool) -> int:
        """Take in the records of a file; of the last one without blobs that weren't committed.

        Returns:
            The position behind them.
        """
        end, written = 0, dict[BlobKey, Place]()
        for record in self._log.records(file, last=last):
            if record.kind == BLOB:
                numbers = record.body[:NUMBER_BYTES]
                operator, shard, number = (
                    int.from_bytes(numbers[i : i + 8], "little") for i in (0, 8, 16)
                )
                written[operator, shard, number] = record.place
                continue
            if record.kind == BEGIN:
                self._check_begin(record, file)
            elif record.kind == PLAN:
                self.planned = _planned(json.loads(record.body))
            elif record.kind == COMMIT:
                stored = json.loads(record.body)
                self.committed = _committed(stored)
                self.planned = _planned(stored["planned"]) if stored["planned"] else None
            self._places |= written
            end, written = record.end, {}
        if not last:
            self._places |= written
        return end

    def _check_begin(self, record: Record, file: int) -> None:
        begin = json.loads(record.body)
        if begin.get("format") != FORMAT:
            raise StateCorruptedError(
                f"{self._log.path(file)} has format {begin.get('format')}, this muntin reads "
                f"format {FORMAT}: use the muntin that wrote it, or start with a new folder"
            )
        self.identity = begin["identity"]


def _planned(stored: Mapping[str, Any]) -> PlannedBatch:
    return PlannedBatch(**{**stored, "ends": tuple(stored["ends"])})


def _committed(stored: Mapping[str, Any]) -> Committed:
    manifests = {(operator, shard): text for operator, shard, text in stored["manifests"]}
    return Committed(
        stored["number"],
        tuple(stored["ends"]),
        stored["final"],
        stored["progress"],
        tuple(stored["shards"]),
        manifests,
    )
