"""Moves state of the local host into another number of shards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from muntin.engine.joins.division import JoinDivision
from muntin.engine.windows.division import WindowDivision
from muntin.hosts.local.checkpoint import LogCheckpoint
from muntin.model.option_types import check_shards
from muntin.state.blobs import draw_number
from muntin.state.manifest import Manifest, parse_manifest
from muntin.state.rescale import Division, build_manifests, split_blob

_LOG = logging.getLogger(__name__)
DIVISIONS: Mapping[str, Callable[[Sequence[Manifest]], Division]] = {
    "windows": WindowDivision,
    "join": JoinDivision,
}
"""The division into shards of each kind of state that both hosts have."""


def rescale_folder(folder: str, shards: int) -> None:
    """Move the state of a stopped query into another number of shards.

    A query that is started without `shards=` takes the number from its checkpoint. Nothing is
    emitted twice or missed.

    Args:
        folder: The checkpoint.
        shards: The new number of shards.

    Raises:
        OptionError: When the query runs, or the number is less than one.
        StateCorruptedError: When the checkpoint is damaged.
    """
    check_shards(shards)
    checkpoint = LogCheckpoint(folder)
    try:
        rescale_operators(checkpoint, (shards,) * len(checkpoint.last_commit.shards))
    finally:
        checkpoint.close()


def rescale_operators(checkpoint: LogCheckpoint, shards: Sequence[int]) -> None:
    """Move the state of each operator into a number of shards, if it has another."""
    for operator, count in enumerate(shards):
        before = checkpoint.last_commit.shards[operator]
        if before != count:
            _LOG.info("%s: moving %d shards into %d", checkpoint.folder, before, count)
            _rescale_operator(checkpoint, operator, count)


def _rescale_operator(checkpoint: LogCheckpoint, operator: int, shards: int) -> None:
    before = range(checkpoint.last_commit.shards[operator])
    stored = checkpoint.last_commit.manifests
    manifests = [parse_manifest(stored[operator, shard]) for shard in before]
    division = DIVISIONS[manifests[0].kind](manifests)
    moved: dict[int, dict[int, tuple[int, int, int]]] = {}
    blobs: dict[tuple[int, int], bytes] = {}
    for shard, manifest in zip(before, manifests, strict=True):
        for number in (number for run in manifest.runs() for number in run.blobs):
            blob = checkpoint.read_blob((operator, shard, number))
            for new, rows, part in split_blob(number, blob, division, shards):
                drawn_number = draw_number(1)
                moved.setdefault(number, {})[new] = (drawn_number, rows, len(part))
                blobs[new, drawn_number] = part
    checkpoint.replace_operator(
        operator, build_manifests(manifests, moved, shards, division), blobs
    )
