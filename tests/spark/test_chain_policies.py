"""Tests of windows over windows in one query of Spark, with random policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.property import chains
from tests.property.chains import Chain
from tests.runners import OracleRunner
from tests.search.on_spark import fit_stream
from tests.spark.runner import SparkRunner
from tests.transcripts.comparison import row_differences


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("at_once", [True, False])
@settings(max_examples=1, phases=[Phase.generate])
@given(drawn=st.lists(chains.chains(by_wall=False), min_size=3, max_size=3))
def test_chains_say_what_oracles_over_oracles_say(
    spark: SparkSession, at_once: bool, drawn: list[Chain]
) -> None:
    cases = [replace(chain, inner=fit_stream(chain.inner, at_once)) for chain in drawn]
    firings_by_case = SparkRunner(spark).run_chains(
        [(c.inner.spec, c.inner.steps, c.outer) for c in cases]
    )
    differences: list[Any] = []
    for number, (chain, steps) in enumerate(zip(cases, firings_by_case, strict=True)):
        _, wanted = chains.run(OracleRunner(), chain)
        for step, (emitted, expected) in enumerate(zip(steps, wanted, strict=True)):
            texts = row_differences("firing", emitted, expected.firings)
            differences += [f"chain {number}, step {step}: {text}" for text in texts]
    assert differences == []
