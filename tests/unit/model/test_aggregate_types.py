"""Tests of the types that each aggregate takes, by its own table."""

from __future__ import annotations

import pytest

from muntin.model import aggregates
from muntin.model.errors import OptionError
from muntin.model.shapes import NESTED, ODD, SCALARS, Shape

LONG, MAP = Shape("bigint", "integer"), Shape("map<int,int>", "map", frozenset({"integer"}))


def test_nested_types_are_known_at_any_depth() -> None:
    deep = Shape.make_nested(
        "array<…>", "array", [Shape.make_nested("struct<…>", "struct", [MAP, LONG])]
    )
    assert deep.inside == {"struct", "map", "integer"}
    assert Shape.make_nested("struct<>", "struct", []).inside == frozenset()


@pytest.mark.parametrize("family", [*SCALARS, *NESTED, *ODD])
def test_everything_can_be_counted(family: str) -> None:
    aggregates.count("v").check({"v": Shape(family, family)})


def test_both_columns_are_checked() -> None:
    shapes = {"m": MAP, "n": LONG}
    aggregates.arg_max("m", "n").check(shapes)
    for wrong_aggregate in (aggregates.arg_max("n", "m"), aggregates.arg_max("m", "m")):
        with pytest.raises(OptionError, match=r"type map<int,int>; give what has an order"):
            wrong_aggregate.check(shapes)


def test_each_column_of_users_functions_is_checked() -> None:
    aggregates.apply(len, "m", "n").check({"m": MAP, "n": LONG})
    with pytest.raises(OptionError, match=r"apply\(m, n, result_type=double\).* type void"):
        aggregates.apply(len, "m", "n").check({"m": MAP, "n": Shape("void", "void")})


def test_errors_quote_the_users_expression() -> None:
    with pytest.raises(OptionError, match=r"^agg='total=sum\(a \+ b\)' reads a column of type"):
        aggregates.sum("__c").check({"__c": Shape("string", "string")}, words="total=sum(a + b)")
