"""Rescaling of windows and sessions: dividing their state among another number of shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from muntin.engine.retention import merge_uncounted
from muntin.engine.windows.zoned import ZONES
from muntin.state.hashing import split_by_shard
from muntin.state.manifest import Manifest

_RETENTION, _WAITS, _FLOOR = "kept", "waits", "floor"
# Values of one shard that its next steps compute again.
_OWN = (_RETENTION, _WAITS, ZONES)


class WindowDivision:
    """The division of the state of windows and sessions, in which every row has its key."""

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        pass  # The rows have all that is needed.

    def divide(self, blob: int, rows: pl.DataFrame, shards: int) -> Mapping[int, pl.DataFrame]:
        keys = [name for name in rows.columns if name[0] == "k" and name[1:].isdigit()]
        return split_by_shard(rows, sorted(keys, key=lambda key: int(key[1:])), shards)

    def extra(self, manifests: Sequence[Manifest]) -> dict[str, Any]:
        """Merge the other values of the old shards; limits will count the messages again."""
        merged = {k: v for k, v in manifests[0].extra.items() if k not in _OWN}
        if _RETENTION in manifests[0].extra:
            merged[_RETENTION] = merge_uncounted(
                manifest.extra.get(_RETENTION, {}).get(_FLOOR) for manifest in manifests
            )
        return merged
