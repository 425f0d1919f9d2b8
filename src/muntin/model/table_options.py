"""Options of declared tables, converted to arguments or refused by name.

A sink's options are the parameters of its function (``to_duckdb``, …), so that each parameter is an
option in SQL and TOML. The options of Spark's sources are in ``reader_options``.
"""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from muntin.model.close_names import find_close_name
from muntin.model.errors import OptionError

Convert = Callable[[str, str], Any]


def refuse_option(name: str, table: str, names: Iterable[str]) -> OptionError:
    """Return the error for an unknown option of a table, with the nearest known one."""
    option_names = sorted(names)
    close = find_close_name(name, option_names)
    hint = f"write {close}" if close else f"its options are {', '.join(option_names)}"
    return OptionError("option", name, f"isn't one of the table {table}", hint)


def arguments_of(
    function: Callable[..., Any],
    table: str,
    options: Mapping[str, str],
    *,
    translated: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Convert the options of a table to the arguments of the function that returns its sink.

    ``translated`` has other names of options, such as Flink's. Raises ``OptionError`` when an
    option is unknown, given twice or missing, or its value can't be converted.
    """
    hints = get_type_hints(function)
    names = check_names(function, table, options, translated=translated)
    arguments = {
        names[name]: convert(name, text, hints[names[name]]) for name, text in options.items()
    }
    if "table" in inspect.signature(function).parameters:
        arguments.setdefault("table", table)
    return arguments


def check_names(
    function: Callable[..., Any],
    table: str,
    options: Mapping[str, str],
    *,
    translated: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the parameters of a function by the names of a table's options, or refuse one."""
    parameters = options_of(function)
    names: dict[str, str] = {}
    for name in options:
        parameter = (translated or {}).get(name, name)
        if parameter not in parameters:
            raise refuse_option(name, table, [*parameters, *(translated or {})])
        if parameter in names.values():
            hint = "leave one of them out"
            raise OptionError(name, table, f"sets {parameter} a second time", hint)
        names[name] = parameter
    for name, parameter_ in inspect.signature(function).parameters.items():
        is_needed = parameter_.default is inspect.Parameter.empty and name != "table"
        if is_needed and name not in names.values():
            hint = f"add '{name}' = '...' to the table {table}"
            raise OptionError(name, None, "is missing", hint)
    return names


def options_of(function: Callable[..., Any]) -> list[str]:
    """Return the parameters of a function whose values can be written as text."""
    hints = get_type_hints(function)
    return [one for one in inspect.signature(function).parameters if not _is_mapping(hints[one])]


def convert(name: str, text: str, kind: Any) -> Any:
    """Convert an option's text to the type of the parameter, or refuse it."""
    if get_origin(kind) is Literal:
        return make_choice(*get_args(kind))(name, text)
    kinds = [one for one in (get_args(kind) or (kind,)) if one is not type(None)]
    if any(get_origin(one) is not None for one in (kind, *kinds)) and any(
        _is_sequence(one) for one in (kind, *kinds)
    ):
        return split_names(text)
    if bool in kinds:
        return parse_boolean(name, text)
    if int in kinds:
        return parse_whole(name, text)
    return text


def parse_boolean(name: str, text: str) -> bool:
    """Convert the text of an option, ``true`` or ``false``."""
    if text.lower() not in ("true", "false"):
        raise OptionError(name, text, "is neither true nor false", "write 'true' or 'false'")
    return text.lower() == "true"


def parse_whole(name: str, text: str) -> int:
    """Convert the text of an option to an integer."""
    if not text.strip().isdecimal():
        raise OptionError(name, text, "isn't a whole number", "write for example '4'")
    return int(text)


def parse_count(name: str, text: str) -> int:
    """Convert the text of an option to a positive integer."""
    if (count := parse_whole(name, text)) < 1:
        raise OptionError(name, text, "is less than one", "write for example '4'")
    return count


def parse_number(name: str, text: str) -> str:
    """Return the text of an option; refuse it if it isn't a number."""
    try:
        float(text)
    except ValueError:
        raise OptionError(name, text, "isn't a number", "write for example '0.5'") from None
    return text


def accept_any(name: str, text: str) -> str:
    """Return the text of an option, which may be any."""
    return text


def make_choice(*texts: str, fold: Callable[[str], str] = str) -> Convert:
    """Return a conversion that accepts only some texts; with ``str.lower``, in any case."""

    def check_choice(name: str, text: str) -> str:
        if fold(text) not in map(fold, texts):
            hint = f"write one of {', '.join(map(repr, texts))}"
            raise OptionError(name, text, "isn't a choice", hint)
        return text

    return check_choice


def split_names(text: str) -> list[str]:
    """Split names at commas; a name with a comma is in double quotes.

    Example:
        >>> split_names('a, "b, c",d')
        ['a', 'b, c', 'd']
    """
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def _is_mapping(kind: Any) -> bool:
    kinds = (kind, *get_args(kind))
    return any(isinstance(get_origin(one), type) and issubclass(get_origin(one), Mapping)
               for one in kinds)  # fmt: skip


def _is_sequence(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Sequence)
