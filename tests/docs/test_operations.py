"""docs/operations.md names the metrics that are served, and alerts on no others."""

from __future__ import annotations

import re
from pathlib import Path

from muntin.spark.inspect.metrics import Metrics

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def test_the_page_names_the_metrics_that_are_served() -> None:
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in Metrics((), ()).collect()
    }
    assert set(re.findall(r"\bmuntin_\w+", PAGE.read_text())) == served
