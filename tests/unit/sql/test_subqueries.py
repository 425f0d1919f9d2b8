"""Tests of ``EXISTS`` and ``IN`` as semi and anti joins."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal, lower_join

NEAR = "s.ts BETWEEN o.ts AND o.ts + INTERVAL '4' HOUR"


@pytest.mark.parametrize(
    ("text", "twin"),
    [
        (f"EXISTS (SELECT * FROM shipments s WHERE s.id = o.id AND {NEAR})", "SEMI"),
        (f"NOT EXISTS (SELECT 1 FROM shipments s WHERE s.id = o.id AND {NEAR})", "ANTI"),
        (f"id IN (SELECT id FROM shipments s WHERE {NEAR})", "SEMI"),
        (f"o.id IN (SELECT s.id FROM shipments s WHERE {NEAR}) AND o.v > 3", "SEMI"),
    ],
)
@pytest.mark.parametrize("columns", ["*", "o.id, o.v + 1 AS more"])
def test_joins(text, twin, columns):
    rest = " WHERE o.v > 3" if "o.v > 3" in text else ""
    join = lower_join(f"SELECT {columns} FROM orders o WHERE {text}")
    expected = lower_join(
        f"SELECT {columns} FROM orders o LEFT {twin} JOIN shipments s "
        f"ON s.id = o.id AND {NEAR}{rest}"
    )
    assert join == expected


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        (f"o.id NOT IN (SELECT id FROM shipments s WHERE {NEAR})", "NOT IN is NULL as soon as one"),
        ("EXISTS (SELECT * FROM shipments s)", "nothing is compared with the outer query"),
        (f"o.id IN (SELECT id, v FROM shipments s WHERE {NEAR})", "IN compares one column"),
        (f"EXISTS (SELECT id FROM shipments s WHERE {NEAR} GROUP BY id)", "more than compare"),
        (f"o.v > 3 AND o.id IN (SELECT id FROM shipments s WHERE {NEAR})", "write it first in W"),
    ],
)
def test_what_is_refused(condition, problem):
    assert problem in get_refusal(f"SELECT * FROM orders o WHERE {condition}")[0]
