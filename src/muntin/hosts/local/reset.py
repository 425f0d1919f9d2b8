"""Sets back the watermark of a query of the local host."""

from __future__ import annotations

from muntin.hosts.local.checkpoint import LogCheckpoint
from muntin.hosts.local.state import LogSnapshot
from muntin.hosts.reset import (
    WatermarkReset,
    plan_reset,
    refuse_begun,
    set_back_figures,
)


def reset_folder(folder: str, to: int, *, dry_run: bool) -> WatermarkReset:
    """Set back the watermark of a stopped query in one commit of its log.

    Args:
        folder: The checkpoint.
        to: The new watermark, microseconds.
        dry_run: Whether to change nothing.

    Raises:
        OptionError: When the query runs, or its watermark can't be set back.
        StateCorruptedError: When the checkpoint is damaged.
    """
    checkpoint = LogCheckpoint(folder)
    try:
        done = checkpoint.last_commit
        first = LogSnapshot(folder)
        chain = [first, *(LogSnapshot(folder, None, n) for n in range(1, len(done.shards)))]
        plan = plan_reset(folder, chain, to)
        if checkpoint.planned is not None:
            refuse_begun(folder, checkpoint.planned.number)
        if not dry_run:
            texts = {
                (operator, shard): manifest.dumps()
                for operator, manifests in enumerate(plan.manifests)
                for shard, manifest in enumerate(manifests)
            }
            checkpoint.replace_manifests(texts, set_back_figures(done.progress, to))
        return plan.reset
    finally:
        checkpoint.close()
