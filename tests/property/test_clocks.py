"""Several clocks of an input: the engine and the oracle agree on watermarks and windows."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.runners import Batch, EngineRunner, OracleRunner, Runner
from tests.transcripts.comparison import row_differences, unordered_differences

from muntin.model import aggregates, sessions, windows
from muntin.model.axis import SECOND
from muntin.model.spec import WindowSpec

PARTITIONS = ("p0", "p1", "p2")
_MESSAGES = st.lists(
    st.tuples(st.sampled_from(PARTITIONS), st.sampled_from("ab"), st.integers(0, 60)), max_size=6
)
_BACKLOGS = st.dictionaries(st.sampled_from(PARTITIONS), st.booleans(), min_size=1)
_STEPS = st.lists(st.tuples(_MESSAGES, _BACKLOGS, st.integers(0, 9)), min_size=1, max_size=6)
_QUERY = WindowSpec(
    keys=("key",),
    time="time",
    windows=windows.tumbling("10 s"),
    aggregates={"n": aggregates.count()},
    types={"partition": "string", "key": "string"},
)
_KINDS = st.sampled_from([windows.tumbling("10 s"), sessions.make_sessions("7 s")])
_RUNNERS = st.sampled_from([EngineRunner(), EngineRunner(2, restart=True)])


def batches(steps: list[tuple[list[tuple[str, str, int]], dict[str, bool], int]]) -> list[Batch]:
    """Return steps whose backlogs name the partitions of their messages."""
    results, wall = [], 100
    for messages, backlog, silence in steps:
        wall += silence
        rows = [
            {"partition": partition, "key": key, "time": time * SECOND}
            for partition, key, time in messages
        ]
        read = {partition: False for partition, _, _ in messages}
        results.append(Batch(rows, wall * SECOND, backlog={**read, **backlog}))
    return results


def compare(spec: WindowSpec, steps: list[Batch], runner: Runner) -> None:
    for step, expected in zip(
        runner.run(spec, steps), OracleRunner().run(spec, steps), strict=True
    ):
        assert step.watermark == expected.watermark
        assert row_differences("firing", step.firings, expected.firings) == []
        assert unordered_differences("rejected", step.rejected, expected.rejected) == []


@given(steps=_STEPS, kind=_KINDS, lateness=st.sampled_from([0, 5 * SECOND]), runner=_RUNNERS)
def test_partitions_with_a_backlog(steps, kind, lateness, runner) -> None:  # type: ignore[no-untyped-def]
    compare(replace(_QUERY, windows=kind, lateness=lateness), batches(steps), runner)


@given(steps=_STEPS, kind=_KINDS, idle=st.sampled_from([None, 8 * SECOND]), runner=_RUNNERS)
def test_values_of_a_column(steps, kind, idle, runner) -> None:  # type: ignore[no-untyped-def]
    spec = replace(_QUERY, windows=kind, clocks=("partition",), idle=idle)
    compare(spec, [replace(step, backlog={}) for step in batches(steps)], runner)
