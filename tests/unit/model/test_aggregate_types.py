"""Which aggregate takes which type, asked of the table itself."""

from __future__ import annotations

import pytest

from muntin.model import aggregates
from muntin.model.errors import OptionError
from muntin.model.shapes import NESTED, ODD, SCALARS, Shape

LONG, MAP = Shape("bigint", "integer"), Shape("map<int,int>", "map", frozenset({"integer"}))


def test_what_is_inside_is_known_at_any_depth() -> None:
    deep = Shape.make_nested(
        "array<…>", "array", [Shape.make_nested("struct<…>", "struct", [MAP, LONG])]
    )
    assert deep.inside == {"struct", "map", "integer"}
    assert Shape.make_nested("struct<>", "struct", []).inside == frozenset()


@pytest.mark.parametrize("family", [*SCALARS, *NESTED, *ODD])
def test_everything_can_be_counted(family: str) -> None:
    aggregates.count("v").check({"v": Shape(family, family)})


def test_both_columns_are_asked_for() -> None:
    shapes = {"m": MAP, "n": LONG}
    aggregates.arg_max("m", "n").check(shapes)
    for wrong in (aggregates.arg_max("n", "m"), aggregates.arg_max("m", "m")):
        with pytest.raises(OptionError, match=r"type map<int,int>; give what has an order"):
            wrong.check(shapes)


def test_users_functions_are_asked_for_each_column() -> None:
    aggregates.apply(len, "m", "n").check({"m": MAP, "n": LONG})
    with pytest.raises(OptionError, match=r"apply\(m, n, result_type=double\).* type void"):
        aggregates.apply(len, "m", "n").check({"m": MAP, "n": Shape("void", "void")})


def test_the_users_words_are_said() -> None:
    with pytest.raises(OptionError, match=r"^agg='total=sum\(a \+ b\)' reads a column of type"):
        aggregates.sum("__c").check({"__c": Shape("string", "string")}, words="total=sum(a + b)")
