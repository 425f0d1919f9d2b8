"""Tests of reading Spark's errors about a checkpoint."""

from __future__ import annotations

from muntin.spark.host.internals.checkpoints import find_changed_operators

OPERATOR = "(OperatorId: {} -> OperatorName: transformWithStateInPySparkExec)"
REFUSED = (
    "[STREAM_FAILED] Query terminated with exception: "
    "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name "
    "does not match with the operator in state metadata.\n"
    "Stateful operators in the metadata: [{}]; Stateful operators in current batch: [{}]."
)


def test_how_many_operators_there_were_and_are() -> None:
    before, after = (", ".join(OPERATOR.format(n) for n in range(count)) for count in (2, 3))
    assert find_changed_operators(REFUSED.format(before, after)) == (2, 3)
    assert find_changed_operators("[STREAM_FAILED] it ended by another error") is None
