"""Resolves the names that users give in a frame: columns, fields of structs and expressions."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from muntin.model.errors import OptionError


def resolve_time(
    frame: DataFrame, time: Column | str | None, option: str = "time"
) -> tuple[str | None, Column | None]:
    """Return the name of a time, and its expression where it isn't a column of the frame."""
    if isinstance(time, Column):
        name = name_expression(frame, option, time)
        return name, None if name in frame.columns else time
    if not isinstance(time, str) or "." not in time or time in frame.columns:
        return time, None
    return time, resolve_field(frame, option, time)


def resolve_field(frame: DataFrame, option: str, path: str, shown: str | None = None) -> Column:
    """Return the field of a struct by its path, as in ``user.country``."""
    kind: DataType = frame.schema
    for name in path.split("."):
        names = kind.names if isinstance(kind, StructType) else []
        if name not in names:
            break
        assert isinstance(kind, StructType)
        kind = kind[name].dataType
    else:
        return F.col(".".join(f"`{name}`" for name in path.split(".")))
    hint = f'give one of {", ".join(frame.columns)}, or a field of a struct: "column.field"'
    if not path.replace(".", "").isidentifier():
        hint += f", or an expression: F.expr({path!r})"
    problem = "isn't a column" if shown is None else "reads no such column"
    raise OptionError(option, shown or path, problem, hint)


def name_expression(
    frame: DataFrame, option: str, expression: Column, written: Column | str = ""
) -> str:
    """Return the name of an expression, which is its alias or the name that Spark gives it."""
    selected = frame.select(expression)
    name: str = selected.columns[0]
    if name in frame.columns:
        own = F.col(f"`{name}`")
        if not any(selected.sameSemantics(frame.select(one)) for one in (own, own.alias(name))):
            hint = f'give it a name of its own: .alias("{name}_2")'
            if isinstance(written, str) and written:
                alias = written.replace(".", "_")
                hint = f'give it a name of its own: F.col("{written}").alias("{alias}")'
            raise OptionError(option, name, "is another column of the frame", hint)
    elif option == "key" and set("`.") & set(name):
        hint = 'name it: .alias("…"), without dots and backticks'
        raise OptionError(option, name, "can't be the name of a column", hint)
    return name
