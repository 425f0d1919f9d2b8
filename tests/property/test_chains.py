"""Windows over windows: chains of engines and of operators agree with chains of oracles."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.property import chains
from tests.property.agreement import step_differences
from tests.property.chains import Chain
from tests.property.streams import EXTREMES
from tests.runners import EngineRunner, OracleRunner, Runner, StandaloneRunner

ENGINES = [
    EngineRunner(),
    EngineRunner(3),
    EngineRunner(2, restart=True),
    EngineRunner(2, repeat=True),
]
OPERATORS = [StandaloneRunner(), StandaloneRunner(restart=True)]


def check(runner: Runner, chain: Chain) -> None:
    # A standalone operator gets only messages.
    follows = runner in ENGINES
    inner_output, expected = chains.run(OracleRunner(), chain, follows=follows)
    assume(runner.runs(chain.outer, chains.make_outer_steps(chain, inner_output, follows=follows)))
    full = [f for step in inner_output for f in step.firings if f["emission"] == "full"]
    # A window of the last microsecond of 9999 ends in 10000, which no datetime can represent:
    # it is malformed as a message of a standalone operator.
    assume(runner in ENGINES or all(f["window_end"] <= EXTREMES[1] for f in full))
    _, outer_output = chains.run(runner, chain, follows=follows)
    texts = [
        text
        for pair in zip(outer_output, expected, strict=True)
        for text in step_differences(*pair)
    ]
    assert texts == []
    # Each inner window occurs once, whatever the policies.
    names = (*chain.inner.spec.keys, "window_start", "window_end")
    assert len({tuple(f[name] for name in names) for f in full}) == len(full)
    assert sum(step.counts["seen"] for step in outer_output) == len(full)


@pytest.mark.parametrize("runners", [ENGINES, OPERATORS], ids=["engine", "standalone"])
@given(data=st.data())
def test_a_chain_says_what_oracles_over_oracles_say(
    runners: list[Runner], data: st.DataObject
) -> None:
    check(data.draw(st.sampled_from(runners)), data.draw(chains.chains()))


@pytest.mark.long
@settings(max_examples=400)
@given(runner=st.sampled_from([*ENGINES, *OPERATORS]), chain=chains.chains())
def test_many_chains(runner: Runner, chain: Chain) -> None:
    check(runner, chain)
