"""Finds the types of declared columns and expressions, and the names in expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.expressions import DataType

from muntin.model.errors import SqlError
from muntin.model.shapes import Shape
from muntin.sql.dialect import Dialect, parse_statements

Expr = exp.Expr
_FAMILIES = {
    "boolean": ("BOOLEAN",),
    "integer": ("TINYINT", "SMALLINT", "INT", "BIGINT"),
    "float": ("FLOAT", "DOUBLE"),
    "decimal": ("DECIMAL",),
    "string": ("TEXT",),
    "binary": ("BINARY", "VARBINARY"),
    "date": ("DATE",),
    "timestamp": ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME"),
    "array": ("ARRAY", "LIST"),
    "map": ("MAP",),
    "struct": ("STRUCT",),
    "interval": ("INTERVAL",),
    "other": ("VARIANT", "NULL", "TIME"),
}
_FAMILY_OF = {name: family for family, names in _FAMILIES.items() for name in names}
# Spark's names of types besides those of standard SQL.
_SPARK_TYPES = {
    "byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT", "real": "FLOAT",
    "dec": "DECIMAL", "numeric": "DECIMAL", "string": "TEXT", "void": "NULL",
    "timestamp_ntz": "TIMESTAMPNTZ", "timestamp_ltz": "TIMESTAMPLTZ",
}  # fmt: skip
_TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
_NUMBERS = ("integer", "float", "decimal")
# The results of operators, by the families of their operands.
_LOGICAL = (exp.And, exp.Or, exp.Not, exp.Is, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE,
            exp.In, exp.Between, exp.NullSafeEQ)  # fmt: skip
_COMPUTED = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg)


def parse_shape(text: str) -> Shape | None:
    """Return the shape of a column's type; ``None`` if Spark has no such type.

    Example:
        >>> parse_shape("decimal(10, 2)").family, parse_shape("timestmp")
        ('decimal', None)
    """
    if text.strip().lower().startswith("interval "):
        return Shape(text, "interval")
    spark_type = _SPARK_TYPES.get(text.strip().lower())
    if spark_type is not None:
        return Shape(text, _FAMILY_OF[spark_type])
    try:
        kind = DataType.build(text, dialect=Dialect)
    except (SqlglotError, ValueError):
        return None
    # Spark refuses to read columns of type CHAR and VARCHAR.
    family = _FAMILY_OF.get(kind.this.name if hasattr(kind.this, "name") else str(kind.this))
    return None if family is None else Shape(text, family)


def parse_ddl_columns(ddl: str) -> dict[str, str]:
    """Return the columns of Spark's DDL and the texts of their types.

    Example:
        >>> parse_ddl_columns("`page` STRING, amount decimal(10, 2)")
        {'page': 'STRING', 'amount': 'decimal(10, 2)'}
    """
    parts: list[str] = []
    depth, start, is_quoted = 0, 0, False
    for position, c in enumerate(ddl):
        is_quoted ^= c == "`"
        if not is_quoted:
            depth += (c in "<(") - (c in ">)")
            if c == "," and not depth:
                parts.append(ddl[start:position])
                start = position + 1
    parts.append(ddl[start:])
    columns = {}
    for part in map(str.strip, parts):
        if part.startswith("`"):
            end = part.replace("``", "  ").index("`", 1)
            name, kind = part[1:end].replace("``", "`"), part[end + 1 :]
        else:
            name, _, kind = part.partition(" ")
        columns[name.rstrip(":")] = kind.strip().removeprefix(":").strip()
    return columns


def parse_expression(text: str) -> exp.Expr | None:
    """Return the syntax tree of an expression; ``None`` if only Spark can parse it."""
    try:
        nodes, _ = parse_statements(text, lambda cursor: cursor.parse_scalar("an expression"))
    except SqlError:
        return None
    return nodes[0] if len(nodes) == 1 else None


def find_unknown_names(tree: exp.Expr, columns: Mapping[str, Shape | None]) -> list[str]:
    """Return the names in an expression that aren't among ``columns`` (in lower case)."""
    bound = {
        parameter.name.lower()
        for function in tree.find_all(exp.Lambda)
        for parameter in function.expressions
    }
    names = (column.parts[0].name for column in tree.find_all(exp.Column))
    return [name for name in names if name.lower() not in columns and name.lower() not in bound]


def find_unitless_times(
    tree: exp.Expr, columns: Mapping[str, Shape | None]
) -> Iterator[tuple[str, bool]]:
    """Yield whole numbers that become times without a unit; ``True`` if a cast converts them."""
    for node in tree.walk():
        is_cast = isinstance(node, exp.Cast) and node.to.is_type(*_TIMES)
        arguments = [node.this] if is_cast else node.expressions
        if not is_cast and not (
            isinstance(node, exp.Anonymous) and node.name.lower() == "to_timestamp_ltz"
        ):
            continue
        if len(arguments) == 1 and infer_family(arguments[0], columns) == "integer":
            yield arguments[0].sql(dialect="spark"), is_cast


def infer_family(tree: Any, columns: Mapping[str, Shape | None]) -> str | None:
    """Return the family of an expression's type; ``None`` if only Spark knows it."""
    if isinstance(tree, exp.Paren):
        return infer_family(tree.this, columns)
    if isinstance(tree, exp.Column) and len(tree.parts) == 1:
        shape = columns.get(tree.name.lower())
        return None if shape is None else shape.family
    if isinstance(tree, exp.Boolean):
        return "boolean"
    if isinstance(tree, exp.Literal):
        return "string" if tree.is_string else "integer" if tree.is_int else "decimal"
    if isinstance(tree, exp.Null):
        return "null"
    operands = {infer_family(one, columns) for one in tree.iter_expressions()} - {"null"}
    if None in operands:
        return None
    numeric = operands <= set(_NUMBERS)
    if isinstance(tree, exp.And | exp.Or | exp.Not):
        return "boolean" if operands <= {"boolean"} else None
    if isinstance(tree, _LOGICAL):
        return "boolean" if numeric or len(operands) <= 1 else None
    if isinstance(tree, _COMPUTED) and numeric:
        return (
            "float"
            if isinstance(tree, exp.Div)
            else next((one for one in _NUMBERS[::-1] if one in operands), "integer")
        )
    return None
