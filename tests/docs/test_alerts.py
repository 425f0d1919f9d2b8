"""Tests that the shipped alert rules are those of the docs, and use metrics that are served."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
import yaml

from muntin.hosts.inspect.metrics import Metrics
from muntin.hosts.progress import Progress

ROOT = Path(__file__).parents[2]
GROUPS = yaml.safe_load((ROOT / "monitoring" / "alerts.yml").read_text())["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]


def collect_metrics() -> dict[str, set[str]]:
    """Return the metrics of a query that has all of them, with their labels."""
    progress = Progress(
        7, 5, {"seen": 9, "late": 1}, fired={"full": 2}, lag={"orders[0]": 3}, state_rows=4
    )
    query = Mock(
        progress=progress, is_active=True, watcher_failures=0, watcher_skipped=0, label="views",
        query=Mock(name="views", id="1", runId="1"),
    )  # fmt: skip
    metrics = Metrics(cast(Any, (query,)))
    return {
        sample.name: {*sample.labels} for family in metrics.collect() for sample in family.samples
    }


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_a_rule_asks_for_figures_that_are_served(rule: dict[str, Any]) -> None:
    metrics = collect_metrics()
    for name, by in re.findall(r"(muntin_\w+)(?:\{(\w+)=)?", rule["expr"]):
        assert name in metrics
        assert not by or by in metrics[name]
    labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    metric = re.search(r"muntin_\w+", rule["expr"])
    assert metric is not None
    assert labels <= metrics[metric[0]]


def test_the_rules_are_those_of_the_docs() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text()
    table = page.partition("| alert | rule |")[2].partition("\n\n")[0]
    for rule in RULES:
        for part in rule["expr"].split(" or "):
            assert f"`{part}`" in table
    assert table.count("\n|") - 1 == len(RULES)
