"""Moves queries out of the local host and into it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from muntin.hosts.leases import LocalLeaseFile, acquire_lease
from muntin.hosts.local.checkpoint import FILE_BYTES
from muntin.hosts.local.log import BLOB, COMMIT, Log
from muntin.hosts.local.log_contents import (
    BlobKey,
    LogContents,
    format_begin,
    format_blob,
    format_commit,
)
from muntin.hosts.seed import Seed
from muntin.model.errors import OptionError
from muntin.sources.source import SourceOffsets
from muntin.state.manifest import parse_manifest

_KINDS = ("windows", "join")
BlobItems = Iterator[tuple[BlobKey, bytes]]


@contextmanager
def read_local_query(folder: str) -> Iterator[tuple[Seed, BlobItems]]:
    """Read a stopped query of the local host, which can't start inside the context.

    Raises:
        OptionError: When it runs, has no commit, or reads a source that Spark doesn't have.
        StateCorruptedError: When the checkpoint is damaged.
    """
    lease = acquire_lease(LocalLeaseFile(Path(folder)), folder)
    log = Log(Path(folder))
    try:
        contents = LogContents(log)
        _check_movable(folder, contents)
        seed = Seed(contents.identity, contents.last_commit, contents.planned)
        yield seed, ((key, contents.read_blob(key)) for key in contents.locate_live_blobs())
    finally:
        log.close()
        lease.release()


def _check_movable(folder: str, contents: LogContents) -> None:
    commit = contents.last_commit
    if commit.number < 0:
        hint = "let the query run one batch, and stop it"
        raise OptionError("FROM", folder, "has no committed batch", hint)
    for number, end in enumerate(commit.ends, 1):
        _check_source(folder, number, end)
    for kind in {parse_manifest(text).kind for text in commit.manifests.values()}:
        refuse_kind(folder, kind)
    try:
        uuid.UUID(contents.identity)
    except ValueError:
        problem = "was begun by an earlier muntin, whose name for the query Spark doesn't take"
        hint = "read the sources again with a new checkpoint"
        raise OptionError("FROM", folder, problem, hint) from None


def refuse_kind(folder: str, kind: str) -> None:
    """Refuse state that only one host has.

    Raises:
        OptionError: When it is of another kind than windows and joins.
    """
    if kind not in _KINDS:
        hint = "move queries of windows and joins"
        raise OptionError("FROM", folder, f"is a checkpoint of {kind}, which stay", hint)


def _check_source(folder: str, number: int, end: SourceOffsets) -> None:
    """Refuse a source that Spark doesn't have, or can't continue."""
    hint = "read topics of Kafka or files, or start the query on Spark with a new checkpoint"
    if "ends" in end:
        return
    if "recent" not in end:
        kind = "a frame" if "row" in end else "mt.ticks"
        problem = f"reads {kind} as its source {number}, which Spark doesn't have"
        raise OptionError("FROM", folder, problem, hint)
    if end["oldest"][0]:
        problem = f"has forgotten the names of older files of its source {number}"
        raise OptionError("FROM", folder, problem, hint)


def write_query(folder: Path, seed: Seed, blobs: Iterable[tuple[BlobKey, bytes]]) -> None:
    """Write a checkpoint of the local host.

    Args:
        folder: The checkpoint, an empty folder.
        seed: The query.
        blobs: The blobs that its manifests name, by operator, shard and number.
    """
    log = Log(folder)
    try:
        log.begin(1, format_begin(seed.identity))
        for key, blob in blobs:
            if log.position > FILE_BYTES:
                log.begin(log.current + 1, format_begin(seed.identity))
            log.append(BLOB, format_blob(key, blob))
            log.flush(disk=False)
        body = format_commit(seed.committed, seed.planned)
        log.append(COMMIT, json.dumps(body).encode())
        log.end()
    finally:
        with suppress(OSError):
            log.close()
