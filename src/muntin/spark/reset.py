"""Sets back the watermark of a query on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from muntin.hosts.reset import WatermarkReset, plan_reset, refuse_begun
from muntin.model.errors import OptionError
from muntin.spark.checkpoint_files import RECORD
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.internals.checkpoints import read_offset_lines
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.rescale import rewrite_in_place
from muntin.spark.stopped_query import open_stopped
from muntin.state.manifest import Manifest


class _ResetCheckpoint(Checkpoint):
    """The state of an operator, with other manifests than the stored ones.

    Args:
        manifests: The manifests, in the order of the shards.
    """

    def __init__(self, opened: Checkpoint, manifests: Sequence[Manifest]) -> None:
        super().__init__(opened.spark, opened.folder, opened.batch, opened.operator)
        self._manifests = list(manifests)

    @property
    def shards(self) -> list[Manifest]:
        return self._manifests


def reset_checkpoint(spark: SparkSession, folder: str, to: int, *, dry_run: bool) -> WatermarkReset:
    """Set back the watermark of a stopped query: write its state anew, as a rescale does.

    An interruption before the new state counts changes nothing. ``to`` is in microseconds.
    """
    hint = "start the query once, and stop it"
    with open_stopped(spark, folder, "CHECKPOINT", hint) as chain:
        plan = plan_reset(folder, chain, to)
        batch = chain[0].batch
        if read_offset_lines(spark, folder, batch + 1):
            refuse_begun(folder, batch + 1)
        if dry_run:
            return plan.reset
        counts = {len(manifests) for manifests in plan.manifests}
        if len(counts) > 1:
            hint = "read the sources again with a new checkpoint"
            problem = f"has operators with {', '.join(map(str, sorted(counts)))} shards"
            raise OptionError("CHECKPOINT", folder, problem, hint)
        pairs = zip(chain, plan.manifests, strict=True)
        rewrite_in_place([_ResetCheckpoint(*pair) for pair in pairs], counts.pop())
        # The figures in it are those before; the next start reads them from the state.
        HadoopPath(spark, f"{folder}/{RECORD}").delete()
        return plan.reset
